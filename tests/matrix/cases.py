"""A row of the matrix as a question: its log, its policies, and the answers of the commands."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from matrix.commands import Answer, run
from matrix.logs import SmallLog, draw_log, mapping_of, write_log
from matrix.options import Row
from matrix.policies import MINE, OTHER, policy_probabilities, write_fixed_policies


@dataclass(eq=False)
class Case:
    """A question: certify a fixed policy on a small log.

    Attributes
    ----------
    row : Row
    folder : Path
        Folder for the files.
    """

    row: Row
    folder: Path

    def __post_init__(self) -> None:
        self._number = count()
        log = draw_log(self.row)
        self.log = replace(log, mine=policy_probabilities(log))

    @classmethod
    def of(cls, row: Row) -> Case:
        return cls(row, Path(tempfile.mkdtemp(prefix="matrix")))

    def new_folder(self) -> Path:
        return self.folder / str(next(self._number))

    @cached_property
    def policies(self) -> list[Path]:
        """Files of the policy and of the baseline."""
        return write_fixed_policies(self.log, self.new_folder())

    @cached_property
    def files(self) -> list[Path]:
        return write_log(self.log, self.new_folder())

    @cached_property
    def answer(self) -> Answer:
        return self.ask(self.log)

    @property
    def numbers(self) -> dict[str, Any]:
        """The answer about the policy."""
        return self.answer.json["candidates"][0]

    def ask(
        self,
        log: SmallLog,
        command: str = "certify",
        policies: list[Path] | None = None,
        files: list[Path] | None = None,
        options: tuple[object, ...] | None = None,
        **mapping: Any,
    ) -> Answer:
        """Ask about a policy on another log, by default with the same policies, and return the answer."""
        row = log.row
        policies = policies or (self.policies if log.row.format in _family(self.row) else self.rewrite(log))
        if files is None:
            files = self.files if log is self.log else write_log(log, self.new_folder())
        policy = "column:mine" if row.reference == "column" else policies[0]
        options = options if options is not None else certify_options(row, policies[1])
        content = {key: value for key, value in mapping_of(log, **mapping).items() if value != "absent"}
        answer = run(command, policy, *files, "--config", json.dumps(content), *options)
        assert answer.status in (0, 3, 4), answer.error
        return answer

    def rewrite(self, log: SmallLog) -> list[Path]:
        """Return files of the same policies for a log with another format, other names or other costs."""
        return write_fixed_policies(log, self.new_folder(), (MINE, OTHER))


def _family(row: Row) -> tuple[str, ...]:
    """Return the formats that share a policy file."""
    return ("csv", "parquet", "jsonl", "frame") if row.is_table else (row.format,)


def certify_options(row: Row, baseline: Path) -> tuple[object, ...]:
    """Return the options of ``drcrm certify`` for a row."""
    options: list[object] = ["--baseline", baseline] if row.reference == "baseline" else []
    options += ["--anytime"] if row.is_watched else []
    options += ["--asymptotic"] if row.look == "asymptotic" else []
    return tuple(options + (["--estimate", row.estimate] if row.estimate != "auto" else []))
