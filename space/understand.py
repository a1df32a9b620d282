"""The tab that says how good the detector is, from plots and tables that ``experiments/analyze.py`` wrote.

The folder ``analysis`` holds those of them that have no texts of CDConv.
"""

import csv
import html
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
    """The plots and tables of an analysis as HTML in both languages; None if there is none.

    Args:
        folder: where the analysis is.
        detectors: the names of the page's detectors; the page says so if the analysis is of another one.
    """
    tables = {path.stem: _read(path) for path in sorted((folder / "tables").glob("*.csv"))}
    plots = [name for name in PLOTS if (folder / "plots" / f"{name}.png").is_file()]
    if not tables and not plots:
        return None
    shown = [_plot(name, (folder / "plots" / f"{name}-dark.png").is_file()) for name in plots]
    listed = [
        _table(name, _cells(tables[name], columns), columns) for name, columns in COLUMNS.items() if name in tables
    ]
    grid = f'<div class="cd-plots">{"".join(shown)}<div class="cd-tables">{"".join(listed)}</div></div>'
    return f'<div class="cd-good">{_lead(tables, detectors)}{grid}</div>'


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
    tiles = "".join(f"<div><b>{value} %</b>{_both(f'tile {key}')}</div>" for key, value in values.items())
    other = f"<p><b>{_both('otherDetector', name=name)}</b></p>" if detectors and name not in detectors else ""
    return f'{other}<div class="cd-tiles">{tiles}</div><p>{_both("good", name=name, **values)}</p>'


def _both(key: str, **values: str) -> str:
    """A text in both languages, of which the page shows one."""
    filled = {language: html.escape(words[key].format(**values)) for language, words in LANGUAGES.items()}
    return "".join(f'<span class="cd-{language}">{text}</span>' for language, text in filled.items())


def _plot(name: str, dark: bool) -> str:
    alt = html.escape(ENGLISH[f"plot {name}"])
    schemes = (("light", ""), ("dark", "-dark")) if dark else (("any", ""),)
    images = [
        f'<img class="cd-{scheme}" loading="lazy" alt="{alt}" src="analysis/plots/{name}{suffix}.png">'
        for scheme, suffix in schemes
    ]
    return f"<figure><figcaption>{_both(f'plot {name}')}</figcaption>{''.join(images)}</figure>"


def _read(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _table(name: str, rows: Sequence[Sequence[str]], columns: Sequence[str]) -> str:
    head = "".join(f"<th>{_both(f'column {column}')}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = (
        f'<div class="cd-scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
    return f"<details open><summary>{_both(f'table {name}')}</summary>{table}</details>"


def _cells(rows: Rows, columns: Sequence[str]) -> list[list[str]]:
    """The cells of a table: shares in percent, but none of a few conversations, and no row without its own figures."""
    cells = []
    for row in rows:
        few = "n" in columns and int(row["n"]) < FEW
        if row.get("reached") != "False":  # no threshold has the wanted precision
            cells.append(["–" if few and _is_share(row[name]) else _shown(row.get(name) or "") for name in columns])
    return cells


def _is_share(cell: str) -> bool:
    return "." in cell and cell.replace(".", "", 1).isdecimal()


def _shown(cell: str) -> str:
    return f"{100 * float(cell):.1f}" if _is_share(cell) else cell
