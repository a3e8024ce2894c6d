"""The answer on a user's log, read leniently: what is missing is empty, and costs are shown as the log has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from drcrm.reports.log_report.formatting import clean, decimals_for, finite, known, number, plural

ESTIMATES = {
    "dr": "DR",
    "snips": "SNIPS",
    "clipped_ips": "clipped IPS",
    "ips": "IPS",
    "dm": "DM",
}  # the first is preferred
LEVELS = {"fail": "fails", "caution": "caution", "good": "good"}  # the worst first


class Interval(NamedTuple):
    """An estimate with its interval; None where something is not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Verdict(NamedTuple):
    """A verdict in print: its kind, a headline, a sentence."""

    kind: str
    title: str
    sentence: str


VERDICTS = {  # from what an answer says to a kind, which has a colour, and a headline
    "better": ("better", "Better than what runs now"),
    "not shown": ("open", "Not shown to be better"),
    "worse": ("worse", "Worse than what runs now"),
    "the log cannot say": ("cannot", "The log cannot say"),
    "the log is wrong": ("wrong", "The log is wrong"),
}


def mapping(value: object) -> Mapping:
    """A part of an answer that has keys; empty where it is missing."""
    return value if isinstance(value, Mapping) else {}


def rows(value: object) -> list[Mapping]:
    """A part of an answer that is a list of such; empty where it is missing."""
    return [mapping(each) for each in value] if isinstance(value, list | tuple) else []


@dataclass(frozen=True)
class Answer:
    """What a command found out, in the units that its reader has: costs, or rewards where the log has rewards.

    Parameters
    ----------
    raw : mapping
        As the command writes it to JSON, in costs; every key may be missing.
    """

    raw: Mapping

    def part(self, key: str) -> Mapping:
        """A part that has keys."""
        return mapping(self.raw.get(key))

    def items(self, key: str) -> list[Mapping]:
        """A part that is a list of such."""
        return rows(self.raw.get(key))

    @property
    def reward(self) -> bool:
        """Whether the log has rewards, so that more is better."""
        return bool(self.raw.get("reward"))

    @property
    def unit(self) -> str:
        """What is paid or earned for a decision."""
        return "reward" if self.reward else "cost"

    @property
    def confidence(self) -> str:
        """The level of intervals, in percent."""
        level = self.raw.get("confidence")
        return f"{100 * level:g} %" if known(level) else "95 %"

    def shown(self, cost: object) -> float | None:
        """A cost as the reader has it."""
        return None if not known(cost) else (0.0 - cost if self.reward else cost)

    def interval(self, estimate: object) -> Interval:
        """An estimate as the reader has it."""
        given = mapping(estimate)
        value, low, high = (self.shown(given.get(key)) for key in ("value", "low", "high"))
        return Interval(value, high, low) if self.reward else Interval(value, low, high)

    @cached_property
    def logging(self) -> Interval:
        """What the decisions of the log cost or earned."""
        return self.interval(self.raw.get("logging"))

    @cached_property
    def candidates(self) -> list[Mapping]:
        """The policies that were judged, the chosen one first."""
        return sorted(self.items("candidates"), key=lambda each: not each.get("chosen"))

    @cached_property
    def chosen(self) -> Mapping:
        """The policy that the verdict is about."""
        given = self.candidates
        return given[0] if len(given) == 1 or (given and given[0].get("chosen")) else {}

    @property
    def stays(self) -> bool:
        """Whether what runs now was chosen."""
        return bool(self.chosen.get("is_logging"))

    @cached_property
    def judged(self) -> Mapping:
        """The policy that numbers are given of: the chosen one, or the best other where what runs now was chosen."""
        others = [each for each in self.candidates if not each.get("is_logging")]
        return min(others, key=promise, default={}) if self.stays else self.chosen

    @property
    def learned(self) -> str:
        """What the policy that numbers are given of is called in a sentence."""
        if self.stays:
            return "The best other candidate"
        return "The learned policy" if self.raw.get("command") == "learn" else "The policy judged"

    def headline(self, candidate: Mapping) -> tuple[str, Interval]:
        """The estimate that a candidate goes by, its name and its values."""
        wanted = mapping(candidate.get("certificate")).get("estimate")
        given = mapping(candidate.get("estimates"))
        order = sorted(ESTIMATES, key=lambda key: key != wanted)
        found = next((key for key in order if known(mapping(given.get(key)).get("value"))), "")
        return found, self.interval(given.get(found))

    def bound(self, candidate: Mapping) -> float | None:
        """What is certified of a candidate."""
        return self.shown(mapping(candidate.get("certificate")).get("bound"))

    def difference(self, candidate: Mapping) -> tuple[Interval, float | None]:
        """A candidate less what runs now, with an interval, and the bound at the level of the certificate."""
        given = mapping(candidate.get("difference"))
        value, low, high = (given.get(key) for key in ("value", "low", "high"))
        if known(value) and known(low) and not known(high):
            high = 2 * value - low
        return self.interval({"value": value, "low": low, "high": high}), self.shown(given.get("bound"))

    @cached_property
    def decimals(self) -> int:
        """The decimals that costs are printed with."""
        given = [self.part("logging"), *(mapping(self.judged.get("estimates")).values()), self.judged.get("difference")]
        given = [mapping(each) for each in given]
        errors = [each.get("standard_error") for each in given] or [self.logging.value]
        return decimals_for(errors, [each.get("value") for each in given])

    def value(self, shown: object, sign: bool = False) -> str:
        """A cost or reward in print."""
        return number(shown, self.decimals, sign)

    @cached_property
    def diagnostics(self) -> list[Mapping]:
        """The diagnostics, the worst first."""
        order = list(LEVELS)
        return sorted(self.items("diagnostics"), key=lambda each: order.index(level(each)))

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict; where none was given, what the diagnostics say of the log."""
        given = self.part("verdict")
        said, sentence = clean(given.get("verdict") or ""), clean(given.get("sentence") or "")
        if said:
            return Verdict(*VERDICTS.get(said.lower(), ("open", said[:1].upper() + said[1:])), sentence)
        levels = [level(each) for each in self.items("diagnostics")]
        if not levels:
            return Verdict("open", "No verdict", sentence)
        fails, cautions = levels.count("fail"), levels.count("caution")
        if fails:
            return Verdict("wrong", f"{plural(fails, 'check')} of {len(levels)} fail{'s' * (fails == 1)}", sentence)
        if cautions:
            return Verdict("care", f"No fault found, {plural(cautions, 'caution')}", sentence)
        return Verdict("better", "No fault found", sentence)

    @property
    def changes(self) -> list[str]:
        """What would change the verdict."""
        return self._notes("changes")

    @property
    def cautions(self) -> list[str]:
        """What casts doubt on the verdict."""
        return self._notes("cautions")

    def _notes(self, key: str) -> list[str]:
        notes = self.part("verdict").get(key)
        return [clean(note) for note in notes if note] if isinstance(notes, list | tuple) else []


def promise(candidate: Mapping) -> tuple[float, float]:
    """By what candidates are ranked: the bound of the difference to what runs now, then the difference."""
    given = mapping(candidate.get("difference"))
    return tuple(given[key] if known(given.get(key)) else float("inf") for key in ("bound", "value"))


def level(diagnostic: Mapping) -> str:
    """How bad a diagnostic is; a caution where that is not known."""
    return next((each for each in LEVELS if each == diagnostic.get("level")), "caution")


def settings(candidate: Mapping) -> str:
    """What tells a candidate from others of its algorithm."""
    said = []
    if candidate.get("parameter") and known(candidate.get("value")):
        said.append(f"{clean(candidate['parameter']).replace('_', ' ')} {candidate['value']:g}")
    if finite([candidate.get("ridge")]) and candidate["ridge"] > 0:
        said.append(f"ridge {candidate['ridge']:g}")
    if finite([candidate.get("step")]) and candidate["step"] != 1:
        said.append(f"step {candidate['step']:g}")
    return ", ".join(said)
