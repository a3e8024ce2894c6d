"""View of a command's JSON answer: its parts by name, with rewards instead of costs if the log has rewards."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from drcrm.arrays.number_formats import (
    decimals_for,
    format_count,
    format_level,
    format_number,
    format_share,
    is_number,
    plural,
)
from drcrm.logs.diagnostics.formats import clean, shorten
from drcrm.logs.diagnostics.units import ConfidenceInterval, Units

ESTIMATES = {"dr": "DR", "snips": "SNIPS", "clipped_ips": "clipped IPS", "ips": "IPS", "dm": "DM"}  # preferred first
LEVELS = {"fail": "fails", "caution": "caution", "good": "good"}  # worst first
LOGGING_POLICY = "the logging policy"
VERDICTS = {  # verdict → CSS class of the page's header, and title
    "better": ("better", "Better than the logging policy"),
    "not shown": ("open", "Not shown to be better"),
    "worse": ("worse", "Worse than the logging policy"),
    "the log cannot say": ("cannot", "The log cannot say"),
    "the log is wrong": ("wrong", "The log is wrong: inconsistent propensities"),
}
CERTIFIED = {  # the same for the answer of ``certify``, by its key ``shown``
    "better": ("better", "Certified better than the logging policy"),
    "worse": ("worse", "Certified, and worse than the logging policy"),
    "not shown": ("open", "Certified, not shown to be better"),
}


class Headline(NamedTuple):
    """The verdict on a policy: CSS class of the page's header, title, and a sentence with the reason."""

    kind: str
    title: str
    sentence: str = ""


@dataclass(frozen=True)
class Candidate:
    """A policy that a command evaluated.

    ``is_corrected`` says whether its difference is corrected for the choice among the candidates: see
    :attr:`drcrm.logs.diagnostics.comparison.policy_comparison.Comparison.corrected`.
    """

    raw: Mapping
    units: Units
    is_corrected: bool = False

    @property
    def label(self) -> str:
        """The name of its algorithm."""
        return self.raw["label"]

    @property
    def is_chosen(self) -> bool:
        return bool(self.raw.get("chosen"))

    @property
    def is_logging(self) -> bool:
        return bool(self.raw.get("is_logging"))

    @property
    def is_reference(self) -> bool:
        """Whether it is the logging policy or the baseline, with which the other policies are compared."""
        return self.is_logging or bool(self.raw.get("is_baseline"))

    @property
    def certificate(self) -> Mapping:
        """Its certificate, or why there is none; empty for the logging policy."""
        return self.raw.get("certificate", {})

    @property
    def comparison(self) -> Mapping:
        """The difference of its cost from that of the logging policy; empty for the logging policy."""
        return self.raw.get("difference", {})

    @property
    def settings(self) -> str:
        """The settings that distinguish it from other candidates of its algorithm."""
        parts = [(clean(self.raw.get("parameter") or "").replace("_", " "), self.raw.get("value"), None)]
        parts += [(key, self.raw.get(key), usual) for key, usual in (("ridge", 0), ("step", 1), ("sharpness", 1))]
        return ", ".join(
            f"{name} {format_number(value)}"
            for name, value, usual in parts
            if name and is_number(value) and value != usual
        )

    @cached_property
    def estimates(self) -> dict[str, ConfidenceInterval]:
        """Its known estimates by key, the preferred one first."""
        intervals = {key: self.units.interval(self.raw["estimates"].get(key)) for key in ESTIMATES}
        return {key: interval for key, interval in intervals.items() if is_number(interval.value)}

    @cached_property
    def main_estimate(self) -> str:
        """The key of the certificate's estimate, by default of the preferred one; empty without estimates."""
        wanted = self.certificate.get("estimate")
        return min(self.estimates, key=lambda key: key != wanted, default="")

    @property
    def interval(self) -> ConfidenceInterval:
        """Its main estimate."""
        return self.estimates.get(self.main_estimate, ConfidenceInterval())

    @property
    def bound(self) -> float | None:
        """The certified bound on its cost or reward."""
        return self.units.convert(self.certificate.get("bound"))

    @cached_property
    def difference(self) -> ConfidenceInterval:
        """Its cost or reward minus the logging policy's. Without an upper end, the interval is symmetric."""
        part = (self.raw.get("corrected") if self.is_corrected else None) or self.comparison
        value, low, high = (part.get(key) for key in ("value", "low", "high"))
        if is_number(value) and is_number(low) and not is_number(high):
            high = 2 * value - low
        return self.units.interval({"value": value, "low": low, "high": high})

    @property
    def value(self) -> float | None:
        """Its cost or reward by the main estimate, with the correction of the difference."""
        value, raw, corrected = (
            self.interval.value,
            self.units.convert(self.comparison.get("value")),
            self.difference.value,
        )
        return value + corrected - raw if is_number(value) and is_number(raw) and is_number(corrected) else value

    @property
    def difference_bound(self) -> float | None:
        """The bound on the difference at the level of the certificate."""
        return self.units.convert(self.comparison.get("bound"))

    @property
    def rank(self) -> tuple[float, ...]:
        """Sort key: the bound on the cost difference, then its estimate."""
        numbers = self.comparison.get("bound"), self.comparison.get("value")
        return tuple(number if is_number(number) else float("inf") for number in numbers)


@dataclass(frozen=True)
class Answer:
    """The answer of a command.

    Parameters
    ----------
    raw : mapping
        The command's JSON answer, in costs. ``diagnose`` gives no candidates and no verdict.
    """

    raw: Mapping

    def part(self, key: str) -> Mapping:
        """Return a part that is a mapping, empty if the command gives none."""
        return self.raw.get(key) or {}

    def items(self, key: str) -> list[Mapping]:
        """Return a part that is a list, empty if the command gives none."""
        return self.raw.get(key) or []

    @property
    def reference(self) -> str:
        """What the policy is compared with: the logging policy, or a baseline."""
        return clean(self.raw.get("reference") or LOGGING_POLICY)

    @cached_property
    def units(self) -> Units:
        return Units(bool(self.raw.get("reward")), self.raw.get("outcome") or "")

    @property
    def confidence(self) -> str:
        """The confidence level of the intervals, in percent."""
        return format_level(self.raw["confidence"])

    @cached_property
    def logging(self) -> ConfidenceInterval:
        """The logging policy's mean cost or reward."""
        return self.units.interval(self.raw.get("logging"))

    @cached_property
    def candidates(self) -> list[Candidate]:
        """The evaluated policies: the chosen one, the logging policy, then the others by :attr:`Candidate.rank`."""
        choices, is_better = self.raw.get("choices"), self.part("verdict").get("verdict") == "better"
        is_corrected = is_better and is_number(choices) and choices > 1
        candidates = [Candidate(raw, self.units, is_corrected) for raw in self.items("candidates")]
        return sorted(
            candidates, key=lambda candidate: (not candidate.is_chosen, not candidate.is_logging, candidate.rank)
        )

    @cached_property
    def compared(self) -> list[Candidate]:
        """The candidates. The logging policy follows the first one if it is not a candidate, then the baseline."""
        candidates, added = self.candidates, []
        if is_number(self.logging.value) and not any(candidate.is_logging for candidate in candidates):
            added.append({"label": "π0", "is_logging": True, "estimates": {"ips": self.raw["logging"]}})
        if (baseline := self.part("baseline")) and not any(
            candidate.raw.get("is_baseline") for candidate in candidates
        ):
            added.append({"label": baseline["name"].removeprefix("the "), "estimates": baseline["estimates"]})
        return [*candidates[:1], *(Candidate(raw, self.units) for raw in added), *candidates[1:]]

    @cached_property
    def chosen(self) -> Candidate | None:
        """The policy that the verdict is about, if one was chosen or there is only one."""
        is_clear = len(self.candidates) == 1 or any(candidate.is_chosen for candidate in self.candidates)
        return self.candidates[0] if is_clear else None

    @property
    def keeps_logging_policy(self) -> bool:
        """Whether the logging policy, or the baseline, was chosen."""
        return self.chosen is not None and self.chosen.is_reference

    @cached_property
    def evaluated(self) -> Candidate | None:
        """The policy of the headline: the chosen one, or the judged candidate if the logging policy was kept."""
        if not self.keeps_logging_policy:
            return self.chosen
        rivals = [candidate for candidate in self.candidates if not candidate.is_reference]
        return min(rivals, key=lambda candidate: (not candidate.raw.get("best"), candidate.rank), default=None)

    @property
    def subject(self) -> str:
        """The noun for the evaluated policy in sentences."""
        if self.items("blocks"):
            return "The way of learning"
        if self.keeps_logging_policy:
            return "The best candidate"
        return "The learned policy" if self.raw["command"] == "learn" else "The evaluated policy"

    @property
    def tested_rows(self) -> str:
        """The name of the rows that evaluate policies."""
        if self.items("blocks"):
            return "rows of the blocks"
        return "held-out rows" if self.part("log").get("heldout") else "rows"

    @cached_property
    def decimals(self) -> int:
        """The decimals of costs and rewards."""
        parts: list[Any] = [self.raw.get("logging")]
        if self.evaluated and self.evaluated.comparison.get("value") is not None:
            parts = [self.evaluated.comparison]  # the sentences of a verdict have the same decimals
        elif self.evaluated:
            parts += [self.evaluated.raw["estimates"].get(self.evaluated.main_estimate)]
        known = [part for part in parts if part]
        return decimals_for([part.get("standard_error") for part in known], [part.get("value") for part in known])

    def format(self, value: object, sign: bool = False) -> str:
        """Return a cost or reward with the decimals of this answer."""
        return format_number(value, self.decimals, sign)

    def format_interval(self, interval: ConfidenceInterval, empty: str, sign: bool = False) -> str:
        """Return the ends of an interval."""
        if not interval.is_bounded:
            return empty
        return f"{self.format(interval.low, sign)} to {self.format(interval.high, sign)}"

    @cached_property
    def diagnostics(self) -> list[Mapping]:
        """The diagnostics, worst first."""
        order = list(LEVELS)
        return sorted(self.items("diagnostics"), key=lambda diagnostic: order.index(diagnostic["level"]))

    def count_level(self, level: str) -> int:
        """Return how many diagnostics have a level."""
        return sum(diagnostic["level"] == level for diagnostic in self.diagnostics)

    @cached_property
    def headline(self) -> Headline:
        """The verdict of the header, or a summary of the diagnostics if the command gives none."""
        if part := self.part("verdict"):
            is_certified = part["verdict"] == "certified"
            kind, title = CERTIFIED[self.raw["shown"]] if is_certified else VERDICTS[part["verdict"]]
            if (assumption := part.get("assumption")) and kind in ("better", "worse"):
                title = f"{title.removesuffix(f' than {LOGGING_POLICY}')}, if {assumption}"
            return Headline(kind, title.replace(LOGGING_POLICY, self.reference), clean(part["sentence"]))
        failures, cautions = self.count_level("fail"), self.count_level("caution")
        if failures:
            title = f"{plural(failures, 'check')} of {len(self.diagnostics)} fail{'s' if failures == 1 else ''}"
            return Headline("wrong", title)
        if cautions:
            return Headline("care", f"No fault found, {plural(cautions, 'caution')}")
        return Headline("better", "No fault found")

    @property
    def logged_by(self) -> list[str]:
        """The logging policies with their shares of the rows, the largest first; empty if they have no names."""
        shares = self.part("log").get("logged_by") or {}
        return [
            f"{shorten(name)} {format_share(shares[name])}" for name in sorted(shares, key=lambda key: -shares[key])
        ]

    @property
    def exploration(self) -> str:
        """Sentences on the share of uniform actions: its cost, and the next log; empty if the command gives none."""
        part = self.part("exploration")
        if not part:
            return ""
        cost = self.units.interval(part["cost"])
        decimals = decimals_for([part["cost"].get("standard_error")], [cost.value])
        value, low, high = (format_number(end, decimals, sign=True) for end in cost)
        interval = f" ({self.confidence} interval {low} to {high})" if cost.is_bounded else ""
        change = f" This changes the {self.units.name} by {value} per row{interval}." if part["share"] else ""
        size, rows = part["effective_size"], format_count(part["rows"])
        choices = "values of a label" if part["of_label"] else "actions"
        least = f"all fixed {choices} have an effective sample size of at least {format_count(size)}"
        unseen = f"some fixed {choices} have an effective sample size below 1"
        return (
            f"The policy file draws {format_level(part['share'])} of the actions uniformly.{change} In a next log of "
            f"{rows} rows, {least if is_number(size) and size >= 1 else unseen}."
        )

    @property
    def explanation(self) -> str:
        """Sentences on the tree that shows what the policy does; empty if the command gives none."""
        part = self.part("explanation")
        if not part:
            return ""
        if part["is_policy"]:
            return "The policy is this tree, except for its share of uniform actions."
        fidelity, rows = format_share(part["fidelity"]), format_count(part["rows"])
        return (
            f"This tree approximates the policy. In {fidelity} of the {rows} rows that the tree was not fitted to, its "
            "action is the policy's most likely one."
        )

    @property
    def single_action(self) -> str:
        """Sentences on the difference from the best single action; empty if the command gives none."""
        part = self.part("single_action")
        if not part:
            return ""
        name = shorten(part["action"])
        if "corrected" not in part:
            return f"{self.subject} takes a single action for everybody, {name}."
        change, n_candidates = self.units.interval(part["corrected"]), self.raw.get("choices")
        choice = f", corrected for the choice among {format_count(n_candidates)} candidates" if n_candidates else ""
        interval = f" ({self.confidence} interval {self.format_interval(change, '', sign=True)}{choice})"
        is_shown = change.is_bounded and (change.low > 0 if self.units.is_reward else change.high < 0)
        advice = "" if is_shown else " So one action for everybody may be as good."
        return (
            f"Compared with the best single action for everybody, {name}, {self.subject[0].lower()}{self.subject[1:]} "
            f"changes {self.units.name} by {self.format(change.value, sign=True)} per row"
            f"{interval if change.is_bounded else ''}.{advice}"
        )

    @property
    def readability(self) -> str:
        """Sentences on the difference of a policy tree from another policy; empty if the command gives none."""
        part = self.part("readability")
        if not part:
            return ""
        change, choices = self.units.interval(part["difference"]), format_count(self.raw["choices"])
        interval = f" ({self.confidence} interval {self.format_interval(change, '', sign=True)})"
        return (
            f"Compared with {shorten(part['other'])}, {shorten(part['tree'])} changes {self.units.name} by "
            f"{self.format(change.value, sign=True)} per row{interval if change.is_bounded else ''}. This is for these "
            f"two policies, and not adjusted for their choice among {choices} candidates on the same rows."
        )

    def notes(self, key: str) -> list[str]:
        """Return the sentences of the verdict under a key: ``changes`` or ``cautions``."""
        return [clean(note) for note in self.part("verdict").get(key, ())]
