"""The parts that algorithms play in an experiment, and the losses that they are judged by."""

LOGGING, SKYLINE = "logging", "skyline"  # π0 and full supervision
ROLES = (LOGGING, SKYLINE)  # played beside the algorithms of the configuration
BASELINE = "cips"  # the plain estimate, beside which figures are scaled
REFERENCE = "poem"  # the one that others are compared with, seed by seed
PAPERS = ("cips", "poem", "kl_crm", "akl_crm", "akl_crm_sum", "kl_dro", "chi2_dro")  # what an experiment has by default
UNCHOSEN = (*ROLES, BASELINE)  # without a hyper-parameter that a held-out score would choose

LOSSES = {"expected_loss": "Expected", "greedy_loss": "Greedy"}  # of an action that is drawn; of the most probable

LABELS, SINGLE = "labels", "single"  # what an action is: a vector of labels, or one of K
