"""Work on large logs by the workers of a Dask cluster; see :mod:`drcrm.data.dask_executor`."""

from drcrm.data.dask_executor import use_cluster as on_cluster

__all__ = ["on_cluster"]
