"""What can be chosen by name, each said once: estimators, held-out scores, losses, and the parts that algorithms play.

Schema, command line, tables and documents read it, or are tested against it. A risk stands by the name of its class and
is imported where it is used, so that tables and figures do not depend on the numerics.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """A label, a colour the colour-blind can tell apart, a marker, a line, and under which heading it is listed."""

    label: str
    colour: str
    marker: str = ""
    line: str = "-"
    group: str = ""


GREY = "#666666"

# The parts that are played beside the algorithms of the configuration, and by some of those.
LOGGING, SKYLINE = "logging", "skyline"
ROLES = {LOGGING: Look("π0", GREY, line=":"), SKYLINE: Look("CRF", GREY, line="--")}
BASELINE = "cips"  # the plain estimate, beside which figures are scaled
REFERENCE = "poem"  # the one that others are compared with, seed by seed
PAPERS = ("cips", "poem", "kl_crm", "akl_crm", "akl_crm_sum", "kl_dro", "chi2_dro")  # what an experiment has by default
UNCHOSEN = (*ROLES, BASELINE)  # without a hyper-parameter that a held-out score would choose

SCORES = {
    "ips": Look("IPS", GREY, "s"),
    "clipped_ips": Look("clipped IPS", GREY, "D"),
    "snips": Look("SNIPS", GREY, "o"),
    "clipped_snips": Look("clipped SNIPS", GREY, "^"),
    "dr": Look("DR", GREY, "v"),
    "dr_bound": Look("DR bound", GREY, "P"),
    "snips_bound": Look("SNIPS bound", GREY, "X"),
    "ls_bound": Look("LS bound", GREY, "*"),
}

LOSSES = {"expected_loss": "Expected Hamming loss", "greedy_loss": "Greedy Hamming loss"}
