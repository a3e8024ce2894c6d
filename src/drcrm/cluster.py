"""Public name of the Dask executor: ``with drcrm.cluster.on_cluster(client): …``."""

from drcrm.data.dask_executor import use_cluster as on_cluster

__all__ = ["on_cluster"]
