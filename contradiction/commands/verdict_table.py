"""The table of ``cdconv detect --table``."""

import sys
from collections.abc import Sequence

from contradiction.chats.chunks import JudgedChunk, Test
from contradiction.chats.writers import RejectedFile, ShownOutput
from contradiction.conversation import text_at
from contradiction.labels import NON_CONTRADICTION

NOT_JUDGED = "not judged"
MAX_CELL = 500  # characters of a cell


class TableOutput(ShownOutput):
    """Collects verdicts as rows of a table."""

    def __init__(self, rejected: RejectedFile | None, only: Sequence[Test] = ()) -> None:
        super().__init__(rejected, only)
        self._rows: list[tuple[str, ...]] = []

    def show(self, chunk: JudgedChunk) -> None:
        """Adds a row for each verdict: the chat, the reply, what was decided, and what the reply contradicts."""
        usable = [entry for entry in chunk.entries if entry.messages is not None]
        for entry, verdicts in zip(usable, chunk.verdicts, strict=True):
            for verdict in verdicts:
                messages = entry.messages or ()
                label = NOT_JUDGED if verdict.label is None else verdict.label
                chance = "" if verdict.probability is None else f"{verdict.probability:.2f}"
                why = text_at(messages, verdict.evidence) or verdict.reason or ""
                reply = text_at(messages, verdict.reply)
                self._rows.append((entry.name, reply, label, chance, verdict.certainty or "", why))

    def print(self) -> None:
        """Prints the table."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD)
        for name in ("chat", "reply", "verdict", "probability", "certainty", "contradicts, or why unchecked"):
            table.add_column(name, justify="right" if name == "probability" else "left", overflow="fold")
        for cells in self._rows:
            # As Text, because a chat may contain markup.
            table.add_row(
                *(Text(_shorten(cell)) for cell in cells),
                style="bold" if cells[2] not in (NON_CONTRADICTION, NOT_JUDGED) else None,
            )
        Console(width=None if sys.stdout.isatty() else 160).print(table)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…"
