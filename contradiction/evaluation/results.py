"""Evaluations: their content, their JSON files, and the folder of saved results.

``cdconv evaluate --json FILE`` writes one evaluation. ``python -m paper.results FILE`` adds it to a folder of saved
results, whose files :mod:`contradiction.evaluation.results_store` describes. :func:`load` reads both.
"""

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from contradiction.data.splits import SPLITS
from contradiction.errors import InputError
from contradiction.evaluation import results_store
from contradiction.evaluation.figures import TASKS, measure
from contradiction.io.files import locked, read_json
from contradiction.labels import CHECKLISTS, CONFIGS, GROUPED, LABELS, has_two_texts, task_of
from contradiction.paths import RESULTS
from contradiction.training import leakage, record

DETECTOR, BASELINE = "detector", "baseline"
KINDS = (DETECTOR, BASELINE)
# Whether the page of results shows an evaluation. The others are only in the files, for instance for the tables of
# `python -m paper.reproduce`.
RESULTS_PAGE = "results"
PAGES = (RESULTS_PAGE, "files")
# The keys of every evaluation, and of its metrics.
KEYS = ("name", "kind", "config", "split", "data", "ids", "references", "predictions", "metrics")
METRICS = ("accuracy", "macro_f1", "per_class", "n", "interval")
# The keys of a record that identify the weights.
IDENTITY = ("request", "epochs", "best_epoch")


def evaluation(
    *, name: str, config: str, split: str, data: str, ids: list[int], references: list[int], predictions: list[int],
    data_name: str | None = None, argmax: list[int] | None = None, probabilities: list[list[float]] | None = None,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """An evaluation: predictions with their scores and 95 % bootstrap intervals.

    ``data`` is the fingerprint of the rows. ``predictions`` are class ids by the decision rule, ``argmax`` those of the
    most probable labels. Where the two differ, the evaluation contains both with their scores. ``more`` are further
    entries, for instance ``run``, the record of the training.

    Returns:
        The arguments, and ``metrics``: see :func:`contradiction.evaluation.figures.measure`.
    """
    result = {"name": name, "config": config, "split": split, "data": data, **more}
    if data_name is not None:
        result["data_name"] = data_name
    if probabilities is not None:
        result["probabilities"] = probabilities
    result["metrics"] = measure(config, references, predictions, probabilities)
    if argmax is not None and argmax != predictions:
        metrics = measure(config, references, argmax, probabilities)
        result["argmax"] = {"metrics": metrics, "predictions": argmax}
    return {**result, "ids": ids, "references": references, "predictions": predictions}


def load(
    folder: str | Path = RESULTS,
    *,
    config: str | None = None,
    split: str | None = None,
    kind: str | None = None,
    names: Container[str] | None = None,
    data: str | None = None,
    with_rows: bool = True,
) -> list[dict[str, Any]]:
    """The evaluations of a folder, without those on rows of the training data.

    Everything published is made from these. Scores on training rows only measure how well a detector memorises. The
    folder is one that :func:`add` writes, or has JSON files; a missing folder has no evaluations. Without rows (ids,
    references, predictions and probabilities) loading is fast, and the metrics have no scores of single labels.

    Raises:
        InputError: a file is damaged, or a JSON file and the saved results have two runs with the same name, or two
            evaluations of a run on different rows.
    """

    def wanted(result: Mapping[str, Any]) -> bool:
        filters = (("config", config), ("split", split), ("kind", kind), ("data", data))
        fits = all(value in (None, result[key]) for key, value in filters)
        return fits and (names is None or result["name"] in names)

    stored = results_store.read(Path(folder), lambda row: not row["leakage"] and wanted(row), with_rows)
    evaluations = {_place(result): result for result in stored}
    for path in sorted(Path(folder).glob("*.json")):
        result = read_json(path)
        if result.get("kind") not in KINDS or leakage.of_evaluation(result):
            continue
        check(path, result)
        if wanted(result):
            other = evaluations.get(_place(result), result)
            if _identity(result) != _identity(other):
                raise InputError(f"{path}: {_two_runs(result['name'])}")
            if result["data"] != other["data"]:
                raise InputError(f"{path}: {_other_rows(result)}")
            evaluations[_place(result)] = result
    return [*evaluations.values()]


def published(folder: str | Path = RESULTS) -> list[dict[str, Any]]:
    """The evaluations of detectors and baselines on the page of results."""
    return [result for result in load(folder) if result.get("page", RESULTS_PAGE) == RESULTS_PAGE]


def add(evaluations: Iterable[Mapping[str, Any]], folder: str | Path = RESULTS, *, page: str = RESULTS_PAGE) -> None:
    """Adds evaluations to a folder of saved results; an evaluation of the same run, config and split is replaced.

    Several processes can do so at the same time, and readers always see complete files. ``page`` is one of ``PAGES``.

    Raises:
        InputError: the folder has another run with the same name, or an evaluation of this run on other rows of the
            same config and split, or an evaluation is damaged; nothing is written then.
    """
    folder = Path(folder)
    added = [{**result, "page": page} for result in evaluations]
    for result in added:
        check_complete(result)
    with locked(folder / results_store.METRICS, wait=True):
        rows = {(row["name"], row["config"], row["split"]): row for row in results_store.read_metrics(folder)}
        runs = results_store.read_runs(folder)
        known = {row["name"]: _identity(results_store.entries(row, runs)) for row in rows.values()}
        for result in added:
            name = result["name"]
            if known.setdefault(name, _identity(result)) != _identity(result):
                raise InputError(f"{folder}: {_two_runs(name)}")
            if rows.get(_place(result), result)["data"] != result["data"]:
                raise InputError(f"{folder}: {_other_rows(result)}")
            rows[_place(result)] = results_store.metrics_row(result)
            if result.get("run"):
                runs[name] = result["run"]
        results_store.write(folder, [*rows.values()], runs, added)


def _two_runs(name: str) -> str:
    return f"contains another run named {name!r}; rename one of them"


def _other_rows(result: Mapping[str, Any]) -> str:
    return (
        f"contains an evaluation of {result['name']!r} on other rows of {result['config']}, {result['split']} split; "
        "save this one in another folder with `python -m paper.results FILE --folder FOLDER`"
    )


def _place(result: Mapping[str, Any]) -> tuple[str, str, str]:
    return result["name"], result["config"], result["split"]


def _identity(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """The identity of the run of an evaluation."""
    run = run_identity(result.get("run") or {})
    return result["kind"], run, result.get("request")


def run_identity(run: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a record that identifies the weights, without their origin and later notes."""
    parts = [*run.get("stages", {}).values(), *record.members(run)]
    return {key: run.get(key) for key in IDENTITY} | {"parts": [run_identity(part) for part in parts]}


def evaluations_of(model: str | Path, folder: str | Path = RESULTS) -> list[dict[str, Any]]:
    """The saved evaluations of the weights in a model folder."""
    run = record.read(model)
    if not run:
        return []
    identity = run_identity(run)
    # Names first, because reading all predictions is slow.
    names = {
        name for name, other_run in results_store.read_runs(Path(folder)).items() if run_identity(other_run) == identity
    }
    names |= {str(read_json(path).get("name")) for path in Path(folder).glob("*.json")}
    saved = load(folder, kind=DETECTOR, names=names)
    return [result for result in saved if run_identity(result.get("run") or {}) == identity]


def baselines(config: str, split: str, folder: str | Path = RESULTS, data: str | None = None) -> list[dict[str, Any]]:
    """The saved baselines of a config and split; with ``data``, only those on rows with this fingerprint."""
    return load(folder, config=config, split=split, kind=BASELINE, data=data)


def best_first(evaluations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The evaluations in descending order of macro-F1."""
    return sorted(evaluations, key=lambda result: -result["metrics"]["macro_f1"])


def check(path: str | Path, result: Mapping[str, Any]) -> None:
    """Raises InputError for a file without an evaluation, or with a damaged evaluation."""
    if result.get("kind", DETECTOR) not in KINDS:
        raise InputError(f"{path}: holds results of the kind {result['kind']!r}, which cannot be saved")
    if missing := [key for key in KEYS if key not in result]:
        raise InputError(
            f"{path}: not an evaluation, it has no {', '.join(missing)}; `cdconv evaluate MODEL --json FILE` writes one"
        )
    metrics = result["metrics"]
    if lacking := [key for key in METRICS if not isinstance(metrics, Mapping) or key not in metrics]:
        raise InputError(f"{path}: metrics has no {', '.join(lacking)}; the file was changed")
    for key in ("ids", "references", "predictions"):
        check_list(path, result, key)


def check_list(path: str | Path, result: Mapping[str, Any], key: str) -> None:
    """Raises InputError unless an evaluation has a value of this key for each row."""
    values, rows = result[key], result["ids"]
    if not isinstance(values, list) or not isinstance(rows, list) or len(values) != len(rows):
        raise InputError(f"{path}: {key} must be a list with one value for each id; the file was changed")


def read_evaluation(path: str | Path) -> dict[str, Any]:
    """Reads the JSON file of an evaluation that can be analysed.

    Raises:
        InputError: the file holds none, or one without probabilities, or a damaged one.
    """
    evaluation = read_json(path)
    check(path, evaluation)
    check_task(str(evaluation["config"]), f"{path}: ")
    if "probabilities" not in evaluation:
        raise InputError(f"{path}: has no probabilities; `cdconv evaluate MODEL --json FILE` writes them")
    check_numbers(path, evaluation)
    _check_probabilities(path, evaluation)
    return evaluation


def check_complete(result: Mapping[str, Any]) -> None:
    """Raises InputError for an evaluation that could not be read again, or whose scores do not match its labels."""
    name, config, split = result["name"], result["config"], result["split"]
    if not isinstance(name, str) or not name:
        raise InputError(f"name {name!r}: an evaluation needs the name of its detector")
    if config not in (*CONFIGS, *CHECKLISTS) or split not in SPLITS:
        raise InputError(f"{name}: there is no {split!r} split of a config {config!r}")
    check_numbers(name, result)
    if not result["ids"]:
        raise InputError(f"{name}: has no rows")
    if result.get("probabilities") is not None:
        _check_probabilities(name, result)
    if argmax := result.get("argmax"):
        if not isinstance(argmax, Mapping):
            raise InputError(f"{name}: argmax is {argmax!r}; it must be an object with metrics and predictions")
        check_numbers(f"{name}: argmax", {**result, "predictions": argmax.get("predictions")})
    if not record.is_record(result.get("run") or {}):
        raise InputError(f"{name}: run is not the record of a training")
    metrics = measure(config, result["references"], result["predictions"], result.get("probabilities"), bootstrap=0)
    for key in ("accuracy", "macro_f1"):
        if not isinstance(given := result["metrics"][key], int | float) or not abs(given - metrics[key]) <= 1e-6:
            raise InputError(f"{name}: {key} is {given!r}, but {metrics[key]:.6f} by the predictions")


def check_numbers(place: str | Path, evaluation: Mapping[str, Any]) -> None:
    """Raises InputError unless ids and labels of an evaluation are whole numbers in their range."""
    ends = dict.fromkeys(
        ("references", "predictions", "without_first_turn"), len(LABELS[task_of(evaluation["config"])])
    )
    for key, end in {"ids": 2**31, **ends}.items():  # 2**31: saved results have ids of 32 bits
        if evaluation.get(key) is None:
            continue
        check_list(place, evaluation, key)
        if wrong := [value for value in evaluation[key] if type(value) is not int or not 0 <= value < end]:
            raise InputError(
                f"{place}: {key} has {wrong[0]!r}, which is not a whole number below {end}; evaluate a data repo that "
                "has numbers there"
            )


def _check_probabilities(place: str | Path, evaluation: Mapping[str, Any]) -> None:
    """Raises InputError unless an evaluation has a probability of each label for each row."""
    labels = len(LABELS[task_of(evaluation["config"])])
    check_list(place, evaluation, "probabilities")
    for row in evaluation["probabilities"]:
        are_numbers = isinstance(row, list) and all(isinstance(value, int | float) for value in row)
        if not are_numbers or len(row) != labels or not all(0 <= value <= 1 for value in row):  # NaN is not
            raise InputError(f"{place}: probabilities has {row!r}; each row must have {labels} numbers from 0 to 1")


def check_task(config: str, where: str = "") -> None:
    """Raises InputError, which begins with ``where``, unless the labels of a config are those of contradictions."""
    if task_of(config) not in TASKS or has_two_texts(config):
        configs = ", ".join(task + suffix for task in TASKS for suffix in ("", GROUPED))
        raise InputError(f"{where}config {config!r} has no labels of contradictions; use one of {configs}")


def check_folder(folder: str | Path) -> None:
    """Raises InputError for a missing folder; ``RESULTS`` may be missing, because the installed package has none."""
    if not Path(folder).is_dir() and Path(folder) != RESULTS:
        raise InputError(
            f"{folder}: there is no such folder of saved results; `python -m paper.results FILE --folder` writes one"
        )


def read_files(files: Iterable[Path]) -> list[dict[str, Any]]:
    """The evaluations in JSON files, or in folders, whose other files are skipped.

    Raises:
        InputError: a file holds none, or a folder holds no evaluation.
    """
    evaluations: list[dict[str, Any]] = []
    for path in files:
        found = len(evaluations)
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            result = read_json(file)
            if result.get("kind") in KINDS or not path.is_dir():
                check(file, result)
                evaluations.append(result)
        if len(evaluations) == found:
            raise InputError(f"{path}: no evaluation in it; `cdconv evaluate MODEL --json FILE` writes one")
    return evaluations
