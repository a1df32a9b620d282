"""The artefact baselines of a grid: on all training rows, and on the parts of them that the cells are trained on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contradiction.data.splits import fingerprint, load_split, of_bot
from contradiction.evaluation import baselines, results
from contradiction.labels import merged_config
from contradiction.reproduction.cells import Cell, share_label

VIEW = "flatten"  # what the n-grams read that are fitted to parts


def baselines_of(
    config: str, cells: Sequence[Cell], data: str | Path, out: str | Path, fit: bool
) -> list[dict[str, Any]]:
    """The evaluations of the artefact baselines on a config's test split: on all rows, then on the cells' parts.

    Those on all rows are taken from the published results, else from ``out``. Those on parts are in ``out``.

    Args:
        config: the config.
        cells: the cells of the grid.
        data: the data repo.
        out: the folder of the table.
        fit: whether to fit what is missing, and to keep it in ``out``.

    Returns:
        The evaluations. Each has a ``part``, the rows that it was fitted to: ``bot``, ``subset`` (as of a cell),
        ``share``, ``seed`` (None where nothing is random), and ``rows``, how many they are.
    """
    train, test = (load_split(data, config, split) for split in ("train", "test"))
    part = {"bot": None, "subset": "", "share": 1.0, "seed": None, "rows": len(train)}
    whole = _on_all(config, fingerprint(test), data, out, fit)
    return [{**result, "part": part} for result in whole] + _on_parts(config, fingerprint(test), cells, data, out, fit)


def _on_all(config: str, rows: str, data: str | Path, out: str | Path, fit: bool) -> list[dict[str, Any]]:
    for folder in (results.FOLDER, out):
        kept = {result["name"]: result for result in results.baselines(config, "test", folder, rows)}
        if found := [kept[name] for name in baselines.FEATURES.values() if name in kept]:
            return found
    fitted = list(baselines.tfidf(data, config)) if fit else []
    for result in fitted:
        results.save(result, Path(out) / f"tfidf-{result['view']}.{config}.test.json")
    return fitted


def _on_parts(
    config: str, rows: str, cells: Sequence[Cell], data: str | Path, out: str | Path, fit: bool
) -> list[dict[str, Any]]:
    kept = [result for result in results.load(out, kind=results.PART_BASELINE, config=config) if result["data"] == rows]
    found = []
    for cell in _parts(config, cells):
        part = _part_of(cell)
        result = next((result for result in kept if part.items() <= result["part"].items()), None)
        if result is None and fit:
            result = _fit(config, cell, data)
            seed = "" if part["seed"] is None else f"-seed{part['seed']}"
            results.save(result, Path(out) / f"tfidf-{VIEW}.{config}{cell.part}{seed}.test.json")
        found += [result] if result else []
    return found


def _parts(config: str, cells: Sequence[Cell]) -> list[Cell]:
    """One cell for each part of the rows. Cells trained on the config itself come before those merged to it."""
    found: dict[tuple[object, ...], Cell] = {}
    for trained_on in (config, *{cell.config for cell in cells if merged_config(cell.config) == config}):
        for cell in cells:
            if cell.trained and cell.config == trained_on and cell.part:
                found.setdefault((cell.part, _part_of(cell)["seed"]), cell)
    return list(found.values())


def _part_of(cell: Cell) -> dict[str, Any]:
    subset = {
        "subset": cell.subset,
        "share": cell.recipe.data.train_fraction,
        "seed": cell.seed if cell.subset else None,
    }
    return {"bot": cell.recipe.data.bot, **subset}


def _fit(config: str, cell: Cell, data: str | Path) -> dict[str, Any]:
    from contradiction.training.augmentation import share_of

    # A share is drawn label by label, so by the labels of the config that the cell is trained on.
    rows = of_bot(load_split(data, cell.config, "train"), cell.recipe.data.bot)
    train_ids = set(share_of(rows, cell.recipe.data.train_fraction, cell.recipe.seed)["id"])
    part = {**_part_of(cell), "rows": len(train_ids)}
    drawn = (
        f", {100 * cell.recipe.data.train_fraction:g} % of the {cell.config} rows, seed {cell.seed}"
        if cell.subset
        else ""
    )
    bot = f", trained on {cell.recipe.data.bot}" if cell.recipe.data.bot else ""
    [result] = baselines.tfidf(
        data, config, views=[VIEW], train_ids=train_ids, part=part, kind=results.PART_BASELINE,
        name=f"{baselines.FEATURES[VIEW]}{bot}{drawn}",
    )  # fmt: skip
    return result


def label_of(result: dict[str, Any]) -> str:
    """How tables name a baseline: by what it reads and what it was fitted to, without the seed."""
    part = result["part"]
    share = share_label(part["share"]) if part["subset"] else ""
    bot = f", trained on {part['bot']}" if part["bot"] else ""
    return f"{baselines.FEATURES[result['view']]}{share}{bot}"
