"""The section on what a policy does: its words, its picture and hostile names."""

from log_answers import better

from drcrm.reports.log_report.answer import Answer
from drcrm.reports.log_report.outcome_sections import describe_path, policy_changes


def condition(feature: str, category: str | None, threshold: float, is_left: bool) -> dict:
    return {"feature": feature, "category": category, "threshold": threshold, "is_left": is_left}


def test_conditions_of_a_feature_are_joined():
    path = (
        condition("age", None, 40.0, False),
        condition("city", "Bern", 0.0, False),
        condition("age", None, 62.345, True),
        condition("city", "Genf", 0.0, False),
        condition("age", None, 47.5, False),
    )
    assert describe_path(path[:1]) == "age is above 40"
    assert describe_path(path) == "age is above 47.5 and at most 62.3 and city is not Bern or Genf"
    assert describe_path((*path, condition("city", "Basel", 0.0, True))).endswith("city is Basel")
    assert describe_path(()) == ""
    assert describe_path((condition("score", None, 0.0, True),)) == "score is at most 0"


def test_actions_are_described_by_their_largest_segments():
    section = policy_changes(Answer(better()))
    assert [action["name"] for action in section["actions"]] == ["sport", "travel"]
    sport, travel = (action["text"] for action in section["actions"])
    assert sport == (
        "44 % of all rows instead of 30 %. More often: 80 % instead of 30 % if age is at most 40 (60 % of the rows). "
        "The tree explains 90 %."
    )
    assert travel.startswith(
        "46 % of all rows instead of 58 %. More often: 80 % instead of 50 % if age is above 40 and "
    )
    assert section["result"] == "3 segments, fidelity 85 %"


def test_the_tree_has_a_branch_to_each_segment():
    tree = policy_changes(Answer(better()))["tree"]
    young, old = tree["branches"]
    assert (young["label"], young["action"]) == ("age ≤ 40", "sport")
    assert young["text"] == "80 % instead of 30 % (60 % of the rows)"
    assert (old["label"], [branch["label"] for branch in old["branches"]]) == (
        "age > 40",
        ["city = Bern", "city ≠ Bern"],
    )
