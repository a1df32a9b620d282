"""The artefact baselines beside a grid's cells: on all training rows, and on the parts of them that the cells read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.evaluation import baselines, results
from contradiction.labels import merged_config
from contradiction.reproduction.cells import Cell, of_rows

# The kind of a kept evaluation of n-grams that were fitted to a part of the rows; only tables of parts show it.
ON_PART = "baseline on a part"
VIEW = "flatten"  # what the n-grams read that are fitted to parts


def beside(config: str, cells: Sequence[Cell], data: str | Path, out: str | Path, count: bool) -> list[dict[str, Any]]:
    """The kept evaluations of the artefact baselines on a config's test split: of all rows, then of the cells' parts.

    Those of all rows are the published ones, else those in ``out``; those of parts lie in ``out``. What is not there is
    counted and kept in ``out``, if ``count`` says so. Each has a ``part``, which says what it was fitted to: ``bot``,
    ``drawn`` (as of a cell), ``share``, ``seed`` (None where nothing was drawn), and how many ``rows`` that are.
    """
    train, test = (load_split(data, config, split) for split in ("train", "test"))
    every = {"bot": None, "drawn": "", "share": 1.0, "seed": None, "rows": len(train)}
    whole = _on_all(config, fingerprint(test), data, out, count)
    return [{**each, "part": every} for each in whole] + _on_parts(config, fingerprint(test), cells, data, out, count)


def _on_all(config: str, rows: str, data: str | Path, out: str | Path, count: bool) -> list[dict[str, Any]]:
    for folder in (results.FOLDER, out):
        kept = {each["name"]: each for each in results.baselines(config, "test", folder, rows)}
        if found := [kept[name] for name in baselines.FEATURES.values() if name in kept]:
            return found
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
    for cell in _parts(config, cells):
        which = _which(cell)
        result = next((each for each in kept if which.items() <= each["part"].items()), None)
        if result is None and count:
            result = _fit(config, cell, data)
            seed = "" if which["seed"] is None else f"-seed{which['seed']}"
            results.keep(result, Path(out) / f"tfidf-{VIEW}.{config}{cell.part}{seed}.test.json")
        found += [result] if result else []
    return found


def _parts(config: str, cells: Sequence[Cell]) -> list[Cell]:
    """A cell for each part of the rows; those that were trained on the config itself before those merged to it."""
    found: dict[tuple[object, ...], Cell] = {}
    for trained_on in (config, *{cell.config for cell in cells if merged_config(cell.config) == config}):
        for cell in cells:
            if cell.trained and cell.config == trained_on and cell.part:
                found.setdefault((cell.part, _which(cell)["seed"]), cell)
    return list(found.values())


def _which(cell: Cell) -> dict[str, Any]:
    drawn = {"drawn": cell.drawn, "share": cell.recipe.share, "seed": cell.seed if cell.drawn else None}
    return {"bot": cell.recipe.bot, **drawn}


def _fit(config: str, cell: Cell, data: str | Path) -> dict[str, Any]:
    from contradiction.training.rows import share_of

    # Of the config that the cell is trained on: a share is drawn label by label.
    rows = of_bot(load_split(data, cell.config, "train"), cell.recipe.bot)
    read = set(share_of(rows, cell.recipe.share, cell.recipe.seed)["id"])
    part = {**_which(cell), "rows": len(read)}
    trained_on = f", trained on {cell.recipe.bot}" if cell.recipe.bot else ""
    name = f"{baselines.FEATURES[VIEW]}{of_rows(cell.recipe.share) if cell.drawn else ''}{trained_on}"
    [result] = baselines.run(data, config, views=[VIEW], read=read, name=name, kind=ON_PART, part=part)
    return result
