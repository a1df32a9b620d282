"""A table of text cells for a terminal or Markdown, and the templates of the pages around the tables."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.errors import for_terminal
from contradiction.paths import TEMPLATES

if TYPE_CHECKING:
    from jinja2 import Environment
    from rich.console import Console
    from rich.table import Table as RichTable

SHORT = 16  # characters of a cell that is never wrapped


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of cells, of which a terminal wraps or cuts the long ones.

    The first ``texts`` columns are text, the others are numbers.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1
    wraps: bool = False

    def markdown(self) -> str:
        """The table in Markdown, without its title."""
        rule = ["---"] * self.texts + ["---:"] * (len(self.header) - self.texts)
        rows = [[cell.replace("|", r"\|") for cell in cells] for cells in (self.header, *self.rows)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (rows[0], rule, *rows[1:]))

    def rich(self) -> "RichTable":
        """The table for a terminal."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD)
        # As Text, because names of columns, files and models may look like markup.
        for index, name in enumerate(self.header):
            justify: Any = "right" if index >= self.texts else "left"
            wraps = self.wraps and any(len(cells[index]) > SHORT for cells in self.rows)
            table.add_column(Text(name), justify=justify, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
        for cells in self.rows:
            table.add_row(*(Text(for_terminal(cell)) for cell in cells))
        return table


def console(wraps: bool = False, stderr: bool = False) -> "Console":
    """The console on stdout or stderr, as wide as the terminal; in a file it is wide enough for every table.

    If the cells of a table are wrapped (``wraps``), and not cut, $COLUMNS says how wide a file is.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() or (wraps and "COLUMNS" in os.environ) else 160)


def percent(value: float, digits: int = 1) -> str:
    """A fraction as a percentage without its sign: 0.781 -> 78.1."""
    return f"{100 * value:.{digits}f}"


def signed(value: float) -> str:
    """A difference of fractions as one of percentages: 0.021 -> +2.1."""
    return f"{100 * value:+.1f}"


def signed_interval(bounds: Sequence[float]) -> str:
    """The bounds of a difference: [-0.003, 0.054] -> -0.3 to +5.4."""
    low, high = bounds
    return f"{signed(low)} to {signed(high)}"


def interval(bounds: Sequence[float]) -> str:
    """Two fractions as percentages: [0.76, 0.80] -> 76.0–80.0."""
    low, high = bounds
    return f"{percent(low)}–{percent(high)}"


def with_interval(value: float, bounds: Sequence[float]) -> str:
    """A fraction and its interval as percentages: 0.482 and [0.452, 0.511] -> 48.2 (45.2–51.1)."""
    return f"{percent(value)} ({interval(bounds)})"


def p_value(value: float) -> str:
    """A p-value with three digits: 0.0341 -> 0.034, and <0.001 for less."""
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def render(template: str, *, templates: Path = TEMPLATES, **values: Any) -> str:
    """Fills a template of the folder ``templates``. A missing value is an error."""
    return _templates(templates).get_template(template).render(**values)


@cache
def _templates(folder: Path) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(folder),
        keep_trailing_newline=True,
        trim_blocks=True,
        undefined=StrictUndefined,
        autoescape=select_autoescape(),  # in .html only; utterances may hold markup
    )
