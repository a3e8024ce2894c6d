"""Fits to large logs by the workers of a Dask cluster; see :mod:`drcrm.core.cluster`."""

from .core.cluster import on_cluster

__all__ = ["on_cluster"]
