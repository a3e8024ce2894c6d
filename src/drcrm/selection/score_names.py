"""Names of the held-out scores and their labels in print. Tables import this module without importing the numerics."""

UNMODELLED = {"ips": "IPS", "clipped_ips": "clipped IPS", "snips": "SNIPS", "clipped_snips": "clipped SNIPS"}
MODELLED = "dr", "dr_bound", "improvement_bound"  # these need a cost model
COST, COST_BOUND = MODELLED[:2]  # scores of a policy's cost on few rows
SCORES = {
    **UNMODELLED,
    "dr": "DR",
    "dr_bound": "DR bound",
    "snips_bound": "SNIPS bound",
    "ls_bound": "LS bound",
    "improvement_bound": "improvement bound",
}
