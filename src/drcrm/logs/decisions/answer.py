"""The answer of :func:`drcrm.learn`, :func:`drcrm.certify` and :func:`drcrm.evaluate`."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drcrm.errors import InputError
from drcrm.files import write_text
from drcrm.logs.diagnostics.check import to_json
from drcrm.logs.diagnostics.comparison.verdict import Verdict
from drcrm.logs.policy_file import StoredPolicy, write_policy
from drcrm.logs.report.page import page
from drcrm.logs.report.terminal import text


@dataclass(frozen=True, eq=False)
class Answer:
    """A verdict on a policy with its evidence. ``print`` shows a short text, and notebooks show the report.

    Attributes
    ----------
    content : dict
        The values of :meth:`as_dict`, in costs. Its keys are those of ``drcrm certify --json``.
    verdict : Verdict or None
        The verdict by name and reason, with the guardrails; None if only the log was checked.
    is_trusted : bool
        Whether the propensities were logged, or the mapping trusts their estimates.
    policy, candidate : StoredPolicy or None
        Results of :func:`drcrm.learn`: the policy to run, and the best candidate if that is another one.
    """

    content: dict[str, Any]
    verdict: Verdict | None = None
    is_trusted: bool = True
    policy: StoredPolicy | None = None
    candidate: StoredPolicy | None = None

    @property
    def is_better(self) -> bool:
        """Whether the policy was shown to be better."""
        return self.verdict is not None and self.verdict.is_better

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values.

        Returns
        -------
        dict
            Costs and differences of costs per row, the checks, and the verdict in words. ``gain`` also has the
            difference per week and in units of the outcome.
        """
        return to_json(self.content)

    def report(self, path: str | Path) -> None:
        """Write the report, an HTML file that loads nothing.

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced.
        """
        write_text(Path(path), page(self.as_dict()))

    def save(self, path: str | Path) -> None:
        """Write the learned policy to a file, for :func:`drcrm.load_policy` and :func:`drcrm.certify`.

        Parameters
        ----------
        path : str or Path
            The file to write, npz.

        Raises
        ------
        InputError
            If the answer is not one of :func:`drcrm.learn`.
        """
        if self.policy is None:
            raise InputError("the answer has no policy to save: only answers of drcrm.learn have one")
        write_policy(Path(path), self.policy)

    def __str__(self) -> str:
        return text(self.as_dict())

    def _repr_html_(self) -> str:
        """Return the report in a frame, which keeps its styles apart from those of the notebook."""
        source = html.escape(page(self.as_dict()), quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="600" style="border: 0"></iframe>'
