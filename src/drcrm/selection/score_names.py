"""Names of held-out scores, by what they are called in print: apart, so that tables do not depend on the numerics."""

UNMODELLED = {"ips": "IPS", "clipped_ips": "clipped IPS", "snips": "SNIPS", "clipped_snips": "clipped SNIPS"}
MODELLED = "dr", "dr_bound", "improvement_bound"  # those that use a cost model
SCORES = {  # by what they are called in print
    **UNMODELLED,
    "dr": "DR",
    "dr_bound": "DR bound",
    "snips_bound": "SNIPS bound",
    "ls_bound": "LS bound",
    "improvement_bound": "improvement bound",
}
