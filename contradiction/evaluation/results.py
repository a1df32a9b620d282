"""The results that are kept: one JSON file an evaluation, with its predictions, and the tables made from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contradiction import paths
from contradiction.errors import InputError
from contradiction.io.files import read_json, write_json
from contradiction.io.tables import Table, interval, percent
from contradiction.labels import task_of
from contradiction.training import leakage, record

FOLDER = paths.RESULTS
RESAMPLES = 2000
# What every evaluation has, and its metrics.
KEYS = ("name", "kind", "config", "split", "data", "ids", "references", "predictions", "metrics")
KINDS = ("detector", "baseline")
FIGURES = ("accuracy", "macro_f1", "per_class", "n", "interval")


def evaluation(
    *, name: str, config: str, split: str, data: str, ids: list[int], references: list[int], predictions: list[int],
    plain: list[int] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """What is kept of one evaluation.

    Args:
        name: of the detector or baseline.
        config: data set config that was predicted.
        split: of that config.
        data: fingerprint of the split's rows.
        ids: of the rows.
        references: class ids.
        predictions: class ids.
        plain: class ids without the detector's decision rule; kept, with metrics of their own, where they differ.
        more: further entries, for instance the record of the run.

    Returns:
        The arguments and ``metrics``, with 95 % bootstrap intervals.
    """
    from evaluate_metric.evaluate_metric import score

    metrics = score(references, predictions, task_of(config), bootstrap=RESAMPLES)
    kept = {"name": name, "config": config, "split": split, "data": data, **more, "metrics": metrics}
    if plain is not None and plain != predictions:
        beside = score(references, plain, task_of(config), bootstrap=RESAMPLES)
        kept["plain"] = {"metrics": beside, "predictions": plain}
    return {**kept, "ids": ids, "references": references, "predictions": predictions}


def keep(result: Mapping[str, Any], path: str | Path) -> None:
    """Writes an evaluation."""
    write_json(path, result)


def kept(folder: str | Path = FOLDER) -> list[dict[str, Any]]:
    """The evaluations of a folder, by file name, but those on rows that the detector has seen in training.

    Whatever is published is made from these: a figure of seen rows says how well a detector remembers. A folder that
    is not there yet keeps none; for one that a user names, see :func:`check_folder`.
    """
    found = {path: read_json(path) for path in sorted(Path(folder).glob("*.json"))}
    found = {path: each for path, each in found.items() if not leakage.of_evaluation(each)}
    for path, each in found.items():
        if each.get("kind") in KINDS:  # other things may lie there too
            check(path, each)
    return [*found.values()]


def check(path: str | Path, result: Mapping[str, Any]) -> None:
    """Raises InputError for a file that holds no evaluation, or a damaged one."""
    if missing := [key for key in KEYS if key not in result]:
        raise InputError(
            f"{path}: no kept evaluation, it has no {', '.join(missing)}; `cdconv evaluate MODEL --json FILE` writes "
            "one"
        )
    metrics = result["metrics"]
    if lacking := [key for key in FIGURES if not isinstance(metrics, Mapping) or key not in metrics]:
        raise InputError(f"{path}: metrics has no {', '.join(lacking)}; the file is changed")
    for key in ("ids", "references", "predictions"):
        check_list(path, result, key)


def check_list(path: str | Path, result: Mapping[str, Any], key: str) -> None:
    """Raises InputError unless an evaluation holds a value of this key for each of its rows."""
    values, rows = result[key], result["ids"]
    if not isinstance(values, list) or not isinstance(rows, list) or len(values) != len(rows):
        raise InputError(f"{path}: {key} must be a list of as many values as there are ids; the file is changed")


def best_first(evaluations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evaluations by macro-F1, that of the labels which a detector gives."""
    return sorted(evaluations, key=lambda each: -each["metrics"]["macro_f1"])


def check_folder(folder: str | Path) -> None:
    """Raises InputError for a folder that is not there; ``FOLDER`` an installed package comes without."""
    if not Path(folder).is_dir() and Path(folder) != FOLDER:
        raise InputError(f"{folder}: no such folder of kept results; `cdconv evaluate --json` writes into one")


def class_table(result: Mapping[str, Any]) -> Table:
    """Precision, recall, F1 and support of each class."""
    metrics = result["metrics"]
    body = [
        (name, percent(one["precision"]), percent(one["recall"]), percent(one["f1"]), f"{one['support']:,}")
        for name, one in metrics["per_class"].items()
    ]
    title = f"{result['name']}: {result['config']}, {result['split']} split, n = {metrics['n']:,}"
    return Table(title, ("class", "precision", "recall", "F1", "support"), body)


def score_table(results: Sequence[Mapping[str, Any]], title: str, with_split: bool = False) -> Table:
    """Macro-F1 and accuracy with their 95 % intervals, a row a result; 4-class ones also merged to 2-class.

    A detector whose decision rule changes labels has a second row, without it.
    """
    header = [
        "detector",
        *(["config", "split"] if with_split else []),
        "macro-F1",
        "95 % interval",
        "accuracy",
        "95 % interval",
    ]
    results = [row for each in results for row in (each, _without_rule(each)) if row]
    merged = any("two_class" in each["metrics"] for each in results)
    body = []
    for each in results:
        place = [each["config"], each["split"]] if with_split else []
        cells = [each["name"], *place, *_figures(each["metrics"])]
        if merged:
            cells += _figures(each["metrics"]["two_class"])[:2] if "two_class" in each["metrics"] else ["", ""]
        body.append(cells)
    return Table(title, header + (["merged to 2-class", "95 % interval"] if merged else []), body)


def _without_rule(result: Mapping[str, Any]) -> dict[str, Any] | None:
    if "plain" not in result:
        return None
    return {**result, **result["plain"], "name": f"{result['name']}, without its decision rule"}


def _figures(metrics: Mapping[str, Any]) -> list[str]:
    bounds = metrics["interval"]
    return [
        percent(metrics["macro_f1"]),
        interval(bounds["macro_f1"]),
        percent(metrics["accuracy"]),
        interval(bounds["accuracy"]),
    ]


def baselines(config: str, split: str, folder: str | Path = FOLDER, data: str | None = None) -> list[dict[str, Any]]:
    """The kept baselines of a config and split; with ``data``, only those measured on these very rows."""
    return [
        each
        for each in kept(folder)
        if each.get("kind") == "baseline"
        and (each["config"], each["split"]) == (config, split)
        and data in (None, each["data"])
    ]


def baseline_table(folder: str | Path = FOLDER) -> Table | None:
    """Test macro-F1 of the baselines on every config they were run on; None where none is kept."""
    found = [each for each in kept(folder) if each.get("kind") == "baseline" and each["split"] == "test"]
    if not found:
        return None
    configs = sorted({each["config"] for each in found}, key=lambda config: (config.endswith("grouped"), config))
    names = list(dict.fromkeys(each["name"] for each in found))
    scores = {(each["name"], each["config"]): each["metrics"] for each in found}
    body = [(name, *(_with_interval(scores.get((name, config))) for config in configs)) for name in names]
    return Table("Baselines, test macro-F1", ("features", *configs), body)


def _with_interval(metrics: Mapping[str, Any] | None) -> str:
    return f"{percent(metrics['macro_f1'])} ({interval(metrics['interval']['macro_f1'])})" if metrics else ""


def run_table(results: Sequence[Mapping[str, Any]]) -> Table:
    """How each detector was trained, and what it costs, from its run's record.

    What it reads, forward passes a reply, backbone, parameters, seed, best epoch, minutes and hardware.
    """
    body = {}
    for each in results:
        # A zero-shot evaluation holds the record of the NLI stage that it asked.
        if (run := each["run"]) and not each.get("request"):
            recipe = run["request"]["recipe"]
            body[each["name"]] = (
                each["name"],
                _of_all(run, lambda its: its["view"]),
                _of_all(run, lambda its: backbone_name(its) or "none, from scratch"),
                str(len(run.get("stages") or run.get("ensemble") or [run])),
                f"{run['parameters'] / 1e6:.1f} M",
                _of_all(run, lambda its: str(its["seed"])),
                f"{run['best_epoch']} of {recipe['epochs']}" if "epochs" in run else _without_epochs(run),
                f"{run['minutes']:.0f}",
                run["hardware"],
            )
    header = ("detector", "reads", "backbone", "passes", "parameters", "seed", "best epoch", "minutes", "hardware")
    return Table("Runs", header, list(body.values()), texts=3)


def _without_epochs(run: Mapping[str, Any]) -> str:
    return "see the log" if run.get("stages") or record.members(run) else "none"


def _of_all(run: Mapping[str, Any], say: Callable[[Mapping[str, Any]], str]) -> str:
    """What is said of a run's recipe, or, each thing once, of those of its members."""
    several = record.members(run) or [dict(run)]
    return " / ".join(dict.fromkeys(say(each["request"]["recipe"]) for each in several))


def backbone_name(recipe: Mapping[str, Any]) -> str | None:
    """The short name of a recorded recipe's backbone; None where it started from random weights."""
    return Path(recipe["backbone"]).name.partition("@")[0] if recipe["backbone"] else None


def trained_on(model: str | Path) -> str | None:
    """The config that a model was trained on, from its record; None where there is none.

    Args:
        model: a folder, or the Hub id of one that has been loaded.
    """
    found = leakage.trainings(record.of_model(model))
    return next((each.config for each in found if each.model is None), None)
