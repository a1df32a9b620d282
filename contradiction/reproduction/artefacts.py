"""The artefact baselines beside a grid's cells: on all training rows, and on the parts of them that the cells read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contradiction import results
from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.evaluation import baselines
from contradiction.labels import merged_config
from contradiction.reproduction.cells import Cell

# The kind of a kept evaluation of n-grams that were fitted to a part of the rows; only tables of parts show it.
ON_PART = "baseline on a part"
VIEW = "flatten"  # what the n-grams read that are fitted to parts


def beside(config: str, cells: Sequence[Cell], data: str | Path, out: str | Path, count: bool) -> list[dict[str, Any]]:
    """The kept evaluations of the artefact baselines on a config's test split: of all rows, then of the cells' parts.

    Those of all rows are the published ones, else those in ``out``; those of parts lie in ``out``. What is not there is
    counted and kept in ``out``, if ``count`` says so.
    """
    rows = fingerprint(load_split(data, config, "test"))
    return _on_all(config, rows, data, out, count) + _on_parts(config, rows, cells, data, out, count)


def _on_all(config: str, rows: str, data: str | Path, out: str | Path, count: bool) -> list[dict[str, Any]]:
    for folder in (results.FOLDER, out):
        if found := results.baselines(config, "test", folder, rows):
            return sorted(found, key=lambda each: list(baselines.FEATURES).index(each["view"]))
    found = list(baselines.run(data, config)) if count else []
    for result in found:
        results.keep(result, Path(out) / f"tfidf-{result['view']}.{config}.test.json")
    return found


def _on_parts(
    config: str, rows: str, cells: Sequence[Cell], data: str | Path, out: str | Path, count: bool
) -> list[dict[str, Any]]:
    kept = [
        each
        for each in results.kept(out)
        if (each.get("kind"), each.get("config"), each.get("data")) == (ON_PART, config, rows)
    ]
    found = []
    for part, cell in _parts(config, cells).items():
        result = next(
            (each for each in kept if tuple(each["part"][key] for key in ("share", "bot", "seed")) == part), None
        )
        if result is None and count:
            result = _fit(config, part, cell, data)
            results.keep(result, Path(out) / f"tfidf-{VIEW}.{config}{_name(*part)}.test.json")
        found += [result] if result else []
    return found


def _parts(config: str, cells: Sequence[Cell]) -> dict[tuple[float, str | None, int | None], Cell]:
    """Share, bot and seed of each part -> a cell that reads it; all rows are none."""
    found: dict[tuple[float, str | None, int | None], Cell] = {}
    for cell in cells:
        share, bot = cell.recipe.share, cell.recipe.bot
        if cell.trained and config in (cell.config, merged_config(cell.config)) and (share < 1 or bot):
            found.setdefault((share, bot, cell.seed if share < 1 else None), cell)
    return found


def _fit(config: str, part: tuple[float, str | None, int | None], cell: Cell, data: str | Path) -> dict[str, Any]:
    from contradiction.training.sampling import share_of

    share, bot, seed = part
    # Of the config that the cell is trained on: a share is drawn label by label.
    read = set(share_of(of_bot(load_split(data, cell.config, "train"), bot), share, cell.recipe.seed)["id"])
    which = {"share": share, "bot": bot, "seed": seed, "rows": len(read)}
    [result] = baselines.run(data, config, views=[VIEW], read=read, kind=ON_PART, part=which)
    return result


def _name(share: float, bot: str | None, seed: int | None) -> str:
    return f"{f'-{bot}' if bot else ''}{f'-share{share:g}-seed{seed}' if share < 1 else ''}"
