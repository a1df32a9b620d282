"""The tab that says how good the detector is, from plots and tables that ``experiments/analyze.py`` wrote.

The folder ``analysis`` holds those of them that have no texts of CDConv.
"""

import csv
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from locales import ENGLISH, LANGUAGES

FOLDER = Path(__file__).with_name("analysis")
PLOTS = ("confusion", "reliability", "precision-recall", "slices")
CONTEXT = "u1, b1, u2 in training"  # the slices by whether a context of the test split is in the training split too
COLUMNS = {
    "classes": ("label", "precision", "recall", "f1", "support"),
    "slices": ("by", "slice", "n", "macro_f1", "low", "high", "merged_macro_f1"),
    "operating_points": ("prior", "wanted", "threshold", "recall", "precision", "low", "high"),
}
FEW = 20  # conversations; fewer give no share that means anything
Rows = Sequence[Mapping[str, str]]


def analysis_html(folder: Path = FOLDER, detectors: Sequence[str] = ()) -> str | None:
    """The plots and tables of an analysis as HTML in both languages, and whether it is of another detector.

    None if there is no analysis.
    """
    tables = {path.stem: _read(path) for path in sorted((folder / "tables").glob("*.csv"))}
    if not tables:
        return None
    plots = "".join(_plot(name) for name in PLOTS if (folder / "plots" / f"{name}.png").is_file())
    listed = "".join(_table(name, tables[name], columns) for name, columns in COLUMNS.items() if name in tables)
    grid = f'<div class="cd-plots">{plots}<div class="cd-tables">{listed}</div></div>'
    return f'<div class="cd-theme cd-good">{_lead(tables, detectors)}{grid}</div>'


def _lead(tables: Mapping[str, Rows], detectors: Sequence[str]) -> str:
    """What the detector scores, and the two numbers of the leak; empty if the tables lack them."""
    try:
        slices = {(row["by"], row["slice"]): row for row in tables["slices"]}
        others = {row["name"]: row for row in tables["comparison"]}
        name = tables["comparison"][0]["name"]
        scores = {
            "all": slices["all rows", "all rows"],
            "seen": slices[CONTEXT, "seen"],
            "unseen": slices[CONTEXT, "unseen"],
            "context": others["TF-IDF, context only"],
        }
        values = {key: f"{100 * float(row['macro_f1']):.1f}" for key, row in scores.items()}
    except (KeyError, IndexError, ValueError):
        return ""
    tiles = "".join(
        f"<div><b>{_both('percent', value=value)}</b>{_both(f'tile {key}')}</div>" for key, value in values.items()
    )
    other = f"<p><b>{_both('otherDetector', name=name)}</b></p>" if detectors and name not in detectors else ""
    return f'{other}<div class="cd-tiles">{tiles}</div><p>{_both("good", name=name, **values)}</p>'


def _both(key: str, **values: str) -> str:
    """A text in both languages, of which the page shows one."""
    filled = {language: html.escape(words[key].format(**values)) for language, words in LANGUAGES.items()}
    return "".join(f'<span class="cd-{language}">{text}</span>' for language, text in filled.items())


def _plot(name: str) -> str:
    alt = html.escape(ENGLISH[f"plot {name}"])
    images = "".join(
        f'<img class="cd-{scheme}" loading="lazy" alt="{alt}" src="analysis/plots/{name}{suffix}.png">'
        for scheme, suffix in (("light", ""), ("dark", "-dark"))
    )
    return f"<figure><figcaption>{_both(f'plot {name}')}</figcaption>{images}</figure>"


def _read(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _table(name: str, rows: Rows, columns: Sequence[str]) -> str:
    head = "".join(f"<th>{_both(f'column {column}')}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_cell(row, column))}</td>' for column in columns)}</tr>"
        for row in rows
        if row.get("reached") != "False"  # no threshold has the wanted precision
    )
    table = (
        f'<div class="cd-scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
    return f"<details open><summary>{_both(f'table {name}')}</summary>{table}</details>"


def _cell(row: Mapping[str, str], column: str) -> str:
    """A cell: a share in percent, but none of a few conversations."""
    cell = row.get(column) or ""
    if not re.fullmatch(r"\d+\.\d+", cell):
        return cell
    return "–" if int(row.get("n", FEW)) < FEW else f"{100 * float(cell):.1f}"
