"""Evaluations: what one holds, its JSON file, and the folder in which the results of the project are kept.

``cdconv evaluate --json FILE`` writes one evaluation. ``cdconv results add FILE`` takes it into a folder of kept
results, whose files :mod:`contradiction.evaluation.results_store` describes. :func:`load` reads both.
"""

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from contradiction import paths
from contradiction.errors import InputError
from contradiction.evaluation import results_store
from contradiction.evaluation.figures import measure
from contradiction.io.files import read_json, write_json
from contradiction.io.locking import locked
from contradiction.training import leakage, record

FOLDER = paths.RESULTS
DETECTOR, BASELINE = "detector", "baseline"
# N-grams that were fitted to a part of the training rows, for the tables of `cdconv reproduce`.
PART_BASELINE = "baseline on a part"
KINDS = (DETECTOR, BASELINE, PART_BASELINE)
# Which page shows an evaluation: the page of results, or only the tables of `cdconv reproduce`.
RESULTS_PAGE, REPRODUCTION_PAGE = PAGES = ("results", "reproduction")
# What every evaluation has, and its metrics.
KEYS = ("name", "kind", "config", "split", "data", "ids", "references", "predictions", "metrics")
METRICS = ("accuracy", "macro_f1", "per_class", "n", "interval")
# What of a record tells its weights from others.
IDENTITY = ("request", "epochs", "best_epoch")


def evaluation(
    *, name: str, config: str, split: str, data: str, ids: list[int], references: list[int], predictions: list[int],
    argmax: list[int] | None = None, probabilities: list[list[float]] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """One evaluation: predictions with their figures and 95 % bootstrap intervals.

    Args:
        name: of the detector or baseline.
        config: data set config that was predicted.
        split: of that config.
        data: fingerprint of the split's rows.
        ids: of the rows.
        references: class ids.
        predictions: class ids, by the decision rule.
        argmax: class ids of the most probable labels, without the rule. Kept, with figures of their own, where they
            differ.
        probabilities: of each label, a list a row.
        more: further entries, for instance ``run``, the record of the training.

    Returns:
        The arguments, and ``metrics``: see :func:`contradiction.evaluation.figures.measure`.
    """
    result = {"name": name, "config": config, "split": split, "data": data, **more}
    if probabilities is not None:
        result["probabilities"] = probabilities
    result["metrics"] = measure(config, references, predictions, probabilities)
    if argmax is not None and argmax != predictions:
        metrics = measure(config, references, argmax, probabilities)
        result["argmax"] = {"metrics": metrics, "predictions": argmax}
    return {**result, "ids": ids, "references": references, "predictions": predictions}


def save(result: Mapping[str, Any], path: str | Path) -> None:
    """Writes one evaluation as JSON."""
    write_json(path, result)


def load(
    folder: str | Path = FOLDER,
    *,
    config: str | None = None,
    split: str | None = None,
    kind: str | None = None,
    names: Container[str] | None = None,
    with_rows: bool = True,
) -> list[dict[str, Any]]:
    """The kept evaluations of a folder, and those of the JSON files in it, without those on rows seen in training.

    Everything that is published is made from these: a figure on seen rows says how well a detector remembers.

    Args:
        folder: that :func:`add` writes, or one of JSON files. One that does not exist holds none.
        config: only evaluations on this config.
        split: only those on this split.
        kind: only those of this kind, one of ``KINDS``.
        names: only those of these detectors or baselines.
        with_rows: also read ids, references, predictions and probabilities. Without them it is fast, and the metrics
            have no figures of single labels.

    Raises:
        InputError: a file is damaged, or a JSON file and the kept results have two runs of one name.
    """

    def wanted(result: Mapping[str, Any]) -> bool:
        asked = (("config", config), ("split", split), ("kind", kind))
        return all(value in (None, result[key]) for key, value in asked) and (names is None or result["name"] in names)

    stored = results_store.read(Path(folder), lambda row: not row["leakage"] and wanted(row), with_rows)
    found = {_place(result): result for result in stored}
    for path in sorted(Path(folder).glob("*.json")):
        result = read_json(path)
        if result.get("kind") not in KINDS or leakage.of_evaluation(result):
            continue
        check(path, result)
        if wanted(result):
            if _place(result) in found and not _same_run(result, found[_place(result)]):
                raise InputError(f"{path}: {_two_runs(result['name'])}")
            found[_place(result)] = result
    return [*found.values()]


def published(folder: str | Path = FOLDER) -> list[dict[str, Any]]:
    """The evaluations of detectors and baselines that the page of results shows."""
    return [
        result
        for result in load(folder)
        if result["kind"] != PART_BASELINE and result.get("page", RESULTS_PAGE) == RESULTS_PAGE
    ]


def add(evaluations: Iterable[Mapping[str, Any]], folder: str | Path = FOLDER, *, page: str = RESULTS_PAGE) -> None:
    """Takes evaluations into a folder of kept results; one of the same run, config and split is replaced.

    Several processes may do so at the same time. Whoever reads meanwhile sees whole files.

    Args:
        evaluations: as :func:`evaluation` returns them.
        folder: created where there is none.
        page: which page shows them, one of ``PAGES``.

    Raises:
        InputError: the folder has another run of the same name.
    """
    folder = Path(folder)
    added = [{**result, "page": page} for result in evaluations]
    with locked(folder / results_store.METRICS, wait=True):
        rows = {(row["name"], row["config"], row["split"]): row for row in results_store.read_metrics(folder)}
        runs = results_store.read_runs(folder)
        known = {row["name"]: _identity_of_row(row, runs) for row in rows.values()}
        for result in added:
            name = result["name"]
            if known.setdefault(name, _identity(result)) != _identity(result):
                raise InputError(f"{folder}: {_two_runs(name)}")
            rows[_place(result)] = results_store.metrics_row(result)
            if result.get("run"):
                runs[name] = result["run"]
        results_store.write(folder, [*rows.values()], runs, added)


def _two_runs(name: str) -> str:
    return f"keeps another run named {name!r}; give one of the two another name"


def _place(result: Mapping[str, Any]) -> tuple[str, str, str]:
    return result["name"], result["config"], result["split"]


def _same_run(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return _identity(one) == _identity(other)


def _identity(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells the run of an evaluation from others."""
    run = run_identity(result.get("run") or {})
    return result["kind"], run, result.get("request"), result.get("part"), result.get("embedder")


def _identity_of_row(row: Mapping[str, str], runs: Mapping[str, Any]) -> tuple[Any, ...]:
    return _identity({**results_store.entries(dict(row)), "run": runs.get(row["name"])})


def run_identity(run: Mapping[str, Any]) -> dict[str, Any]:
    """What of a record tells the weights from others, without where they are from or what was noted on them since."""
    parts = [*run.get("stages", {}).values(), *record.members(run)]
    return {key: run.get(key) for key in IDENTITY} | {"parts": [run_identity(part) for part in parts]}


def evaluations_of(model: str | Path, folder: str | Path = FOLDER) -> list[dict[str, Any]]:
    """The kept evaluations of the very weights that a model folder records."""
    run = record.read(model)
    if not run:
        return []
    identity = run_identity(run)
    # The names first: to read all predictions takes a while.
    names = {name for name, other in results_store.read_runs(Path(folder)).items() if run_identity(other) == identity}
    names |= {str(read_json(path).get("name")) for path in Path(folder).glob("*.json")}
    found = load(folder, kind=DETECTOR, names=names)
    return [result for result in found if run_identity(result.get("run") or {}) == identity]


def baselines(config: str, split: str, folder: str | Path = FOLDER, data: str | None = None) -> list[dict[str, Any]]:
    """The kept baselines of a config and split; with ``data``, only those that were measured on these rows."""
    found = load(folder, config=config, split=split, kind=BASELINE)
    return [result for result in found if data in (None, result["data"])]


def best_first(evaluations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Evaluations by the macro-F1 of the labels that the detectors give."""
    return sorted(evaluations, key=lambda result: -result["metrics"]["macro_f1"])


def check(path: str | Path, result: Mapping[str, Any]) -> None:
    """Raises InputError for a file that holds no evaluation, or a damaged one."""
    if result.get("kind", DETECTOR) not in KINDS:
        raise InputError(f"{path}: holds results of the kind {result['kind']!r}, which are not kept")
    if missing := [key for key in KEYS if key not in result]:
        raise InputError(
            f"{path}: no kept evaluation, it has no {', '.join(missing)}; `cdconv evaluate MODEL --json FILE` writes "
            "one"
        )
    metrics = result["metrics"]
    if lacking := [key for key in METRICS if not isinstance(metrics, Mapping) or key not in metrics]:
        raise InputError(f"{path}: metrics has no {', '.join(lacking)}; the file is changed")
    for key in ("ids", "references", "predictions"):
        check_list(path, result, key)


def check_list(path: str | Path, result: Mapping[str, Any], key: str) -> None:
    """Raises InputError unless an evaluation holds a value of this key for each of its rows."""
    values, rows = result[key], result["ids"]
    if not isinstance(values, list) or not isinstance(rows, list) or len(values) != len(rows):
        raise InputError(f"{path}: {key} must be a list of as many values as there are ids; the file is changed")


def check_folder(folder: str | Path) -> None:
    """Raises InputError for a folder that does not exist. An installed package comes without ``FOLDER``: that may."""
    if not Path(folder).is_dir() and Path(folder) != FOLDER:
        raise InputError(f"{folder}: no such folder of kept results; `cdconv results add FILE --folder` writes one")


def read_files(files: Iterable[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The evaluations and the counts of contrast pairs in JSON files.

    Args:
        files: JSON files, or folders of them. Other JSON files in a folder are passed over.

    Raises:
        InputError: a file holds neither, or a folder holds none.
    """
    evaluations: list[dict[str, Any]] = []
    counts: list[dict[str, Any]] = []
    for path in files:
        found = [(file, read_json(file)) for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
        if path.is_dir():
            found = [(file, result) for file, result in found if _is_contrast(result) or result.get("kind") in KINDS]
        if not found:
            raise InputError(f"{path}: no evaluation in it; `cdconv evaluate MODEL --json FILE` writes one")
        for file, result in found:
            if not _is_contrast(result):
                check(file, result)
            (counts if _is_contrast(result) else evaluations).append(result)
    return evaluations, counts


def _is_contrast(result: Mapping[str, Any]) -> bool:
    """Whether it is what ``cdconv contrast --json`` writes."""
    return {"name", "pairs", "contrast"} <= result.keys()
