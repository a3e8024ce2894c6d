"""Base of the readers of texts: a decision in one or several lines, with named features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from drcrm.errors import prefix_errors
from drcrm.logs.batches.decisions import Decision, batch_of, contexts_of, group_decisions
from drcrm.logs.batches.description import Batch
from drcrm.logs.encoding.base import Contexts
from drcrm.logs.encoding.hashed_features import HashedEncoding
from drcrm.logs.readers.base import Reader, open_file

Lines = Iterable[tuple[int, bytes]]  # lines with their numbers


class TextReader(Reader):
    """Reader of a text whose lines have named features, which are hashed.

    A format may have variants, such as the number from which actions are counted.

    Attributes
    ----------
    default_variant : int or bool
        Variant of a log that shows none.
    """

    encodings = (HashedEncoding,)
    default_variant: Any = None

    def detect_variant(self, lines: Lines) -> Any:
        """Return the variant of a file; None if the file does not show it."""
        return None

    @abstractmethod
    def decisions(self, lines: Lines, variant: Any) -> Iterator[Decision]:
        """Yield the decisions of a file with their outcomes, and count skipped lines by reason."""

    @abstractmethod
    def undecided(self, lines: Lines, encoding: Any) -> Iterator[Decision]:
        """Yield the contexts of a file for a policy with this encoding, without outcomes."""

    def read_batches(self, file: Path) -> Iterator[Batch]:
        mapping = self.mapping.require_no_columns(self.title)
        for decided in group_decisions(
            self.decisions(self._lines(file, reported=True), self._variant(file)), self.rows
        ):
            yield batch_of(decided, self.name, mapping, self.skipped)

    def read_contexts(self, file: Path, encoding: Any, keep: Sequence[str]) -> Iterator[tuple[Contexts, Any]]:
        for undecided in group_decisions(self.undecided(self._lines(file, reported=True), encoding), self.rows):
            yield contexts_of(undecided), None

    def _variant(self, file: Path) -> Any:
        """Return the variant of the file itself, or of the first file of the log that shows one."""
        variant = self.detect_variant(self._lines(file))
        for sibling in self.files:
            if variant is None and sibling != file:
                with prefix_errors(sibling.name):
                    variant = self.detect_variant(self._lines(sibling))
        return self.default_variant if variant is None else variant

    def _lines(self, file: Path, reported: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the numbered lines of a file; if ``reported``, reading them counts as progress."""
        self.n_read = 0
        with open_file(file, reported) as stream:
            for line in stream:
                self.n_read += 1
                yield self.n_read - 1, line
