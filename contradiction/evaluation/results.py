"""The saved results: the evaluations of detectors and baselines in a folder, in which a name identifies one run.

- ``metrics.csv`` has a row for each evaluation: its description, and for readers its scores with 95 % intervals.
- ``runs.jsonl`` has a line for each detector: its name and the record of its training.
- ``predictions/<config>.<split>.parquet`` has a row for each run and data row: id, reference, prediction, argmax (the
  most probable label, without the decision rule), and the probability of each label, rounded to four digits.

``python -m paper.results FILE`` writes these files. JSON files of ``cdconv evaluate --json`` may lie beside them.
Scores are always computed from the predictions.
"""

import csv
import json
import math
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.evaluation.figures import TASKS, measure
from contradiction.io.files import read_json
from contradiction.labels import LABELS, has_two_texts, task_of
from contradiction.paths import RESULTS
from contradiction.training import record

if TYPE_CHECKING:
    import pyarrow as pa

DETECTOR, BASELINE = "detector", "baseline"
KINDS = (DETECTOR, BASELINE)
# The keys of every evaluation, and of its metrics.
KEYS = ("name", "kind", "config", "split", "data", "ids", "references", "predictions", "metrics")
METRIC_KEYS = ("accuracy", "macro_f1", "per_class", "n", "interval")
# The keys of a record that identify the weights.
IDENTITY = ("request", "epochs", "best_epoch", record.CASCADE)

METRICS, RUNS, PREDICTIONS = "metrics.csv", "runs.jsonl", "predictions"
# Entries of an evaluation that are text, and those that are stored as JSON.
TEXTS = ("name", "page", "kind", "config", "split", "data", "data_name", "view")
OBJECTS = ("columns", "truncated", "request", "rule")
DESCRIPTION = (*TEXTS, *OBJECTS, "n", "seed", "leakage")
DIGITS = 4
Row = dict[str, str]


def load(
    folder: str | Path = RESULTS,
    *,
    config: str | None = None,
    split: str | None = None,
    kind: str | None = None,
    names: Container[str] | None = None,
) -> list[dict[str, Any]]:
    """The evaluations of a folder, without those on rows of the training data.

    Everything published is made from these. Scores on training rows only measure how well a detector memorises. A
    missing folder has no evaluations. A JSON file replaces the saved evaluation of the same name, config and split.

    Raises:
        InputError: a file is damaged, scores are not those of the predictions, or a JSON file has other rows.
    """
    filters = {"config": config, "split": split, "kind": kind}

    def wanted(result: Mapping[str, Any]) -> bool:
        fits = all(value in (None, result[key]) for key, value in filters.items())
        return fits and (names is None or result["name"] in names)

    folder = Path(folder)
    rows = [row for row in read_metrics(folder) if not row["leakage"] and wanted(row)]
    runs = read_runs(folder) if rows else {}
    tables = {place: read_predictions(folder, *place) for place in {(row["config"], row["split"]) for row in rows}}
    evaluations = {place_of(row): _evaluation(row, runs, tables[row["config"], row["split"]]) for row in rows}
    for path in sorted(folder.glob("*.json")):
        result = read_json(path)
        if result.get("kind") not in KINDS or result.get("leakage"):
            continue
        check(path, result)
        if wanted(result):
            if evaluations.get(place_of(result), result)["data"] != result["data"]:
                raise InputError(f"{path}: {other_rows(result)}")
            evaluations[place_of(result)] = result
    return [*evaluations.values()]


def evaluation(
    *, config: str, references: list[int], predictions: list[int], argmax: list[int] | None = None, **more: Any
) -> dict[str, Any]:
    """An evaluation: predictions with their scores and 95 % bootstrap intervals.

    ``predictions`` are class ids by the decision rule, ``argmax`` those of the most probable labels. Where the two
    differ, the evaluation contains both with their scores. ``more`` are the other ``KEYS``, and further entries, for
    instance ``run``, the record of the training.

    Returns:
        The arguments, and ``metrics``: see :func:`contradiction.evaluation.figures.measure`.
    """
    result = {"config": config, "references": references, "predictions": predictions, **more}
    result["metrics"] = measure(config, references, predictions)
    if argmax is not None and argmax != predictions:
        result["argmax"] = {"metrics": measure(config, references, argmax), "predictions": argmax}
    return result


def other_rows(result: Mapping[str, Any]) -> str:
    """The error in words where the evaluations of one place are on different rows."""
    return (
        f"contains an evaluation of {result['name']!r} on other rows of {result['config']}, {result['split']} split; "
        "save this one in another folder with `python -m paper.results FILE --folder FOLDER`"
    )


def place_of(result: Mapping[str, Any]) -> tuple[str, str, str]:
    """What identifies an evaluation in a folder."""
    return result["name"], result["config"], result["split"]


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
    names = {name for name, other_run in read_runs(Path(folder)).items() if run_identity(other_run) == identity}
    names |= {str(read_json(path).get("name")) for path in Path(folder).glob("*.json")}
    saved = load(folder, kind=DETECTOR, names=names)
    return [result for result in saved if run_identity(result.get("run") or {}) == identity]


def baselines(config: str, split: str, data: str) -> list[dict[str, Any]]:
    """The saved baselines on the rows of a config and split with this fingerprint."""
    return [result for result in load(config=config, split=split, kind=BASELINE) if result["data"] == data]


def check(path: str | Path, result: Mapping[str, Any]) -> None:
    """Raises InputError for a file without an evaluation, or with a damaged evaluation."""
    if result.get("kind", DETECTOR) not in KINDS:
        raise InputError(f"{path}: holds results of the kind {result['kind']!r}, which cannot be saved")
    metrics: Any = result.get("metrics")
    metrics = metrics if isinstance(metrics, Mapping) else {}
    if missing := [key for key in KEYS if key not in result] + [key for key in METRIC_KEYS if key not in metrics]:
        raise InputError(
            f"{path}: not an evaluation, it has no {', '.join(missing)}; `cdconv evaluate MODEL --json FILE` writes one"
        )
    check_values(path, result)


def read_evaluation(path: str | Path) -> dict[str, Any]:
    """Reads the JSON file of an evaluation that can be analysed.

    Raises:
        InputError: the file holds none, or one without probabilities, or a damaged one.
    """
    evaluation = read_json(path)
    check(path, evaluation)
    config = str(evaluation["config"])
    if task_of(config) not in TASKS or has_two_texts(config):
        raise InputError(
            f"{path}: config {config!r} has no labels of contradictions; evaluate one of {', '.join(TASKS)}"
        )
    if "probabilities" not in evaluation:
        raise InputError(f"{path}: has no probabilities; `cdconv evaluate MODEL --json FILE` writes them")
    return evaluation


def check_values(place: str | Path, evaluation: Mapping[str, Any]) -> None:
    """Raises InputError unless an evaluation has as many ids, labels and probabilities, each in its range.

    The ids of a data repo may be texts.
    """
    ids, config = evaluation["ids"], str(evaluation["config"])
    labels = LABELS.get(task_of(config), ())
    for key, types in (("ids", (int, str)), ("references", (int,)), ("predictions", (int,))):
        if not isinstance(evaluation[key], list) or not all(type(value) in types for value in evaluation[key]):
            raise InputError(f"{place}: {key} must be a list of {'ids' if key == 'ids' else 'class ids'}")
    try:
        rows = measure(config, evaluation["references"], evaluation["predictions"], bootstrap=0)["n"]
        probabilities = np.array(evaluation.get("probabilities", np.zeros((rows, len(labels)))), dtype=float)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{place}: {error}") from None
    if len(ids) != rows:
        raise InputError(f"{place}: has {len(ids)} ids for {rows} rows")
    if probabilities.shape != (rows, len(labels)) or not ((probabilities >= 0) & (probabilities <= 1)).all():  # no NaN
        raise InputError(f"{place}: probabilities must have {len(labels)} numbers from 0 to 1 for each of {rows} rows")


def check_folder(folder: str | Path) -> None:
    """Raises InputError for a missing folder; ``RESULTS`` may be missing, because the installed package has none."""
    if not Path(folder).is_dir() and Path(folder) != RESULTS:
        raise InputError(
            f"{folder}: there is no such folder of saved results; `python -m paper.results FILE --folder` writes one"
        )


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Raises InputError if a file of the saved results cannot be read in the block."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError) as error:  # those of pyarrow are some of these
        raise InputError(
            f"{path}: missing or damaged ({first_line(error)}); restore it, or add the evaluations again"
        ) from None


def read_metrics(folder: Path) -> list[Row]:
    """The rows of ``metrics.csv``; none without the file."""
    if not (path := folder / METRICS).is_file():
        return []
    with _readable(path), path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if missing := [column for column in DESCRIPTION if rows and column not in rows[0]]:
        raise InputError(f"{path}: has no column {missing[0]!r}; `python -m paper.results` writes this file")
    return rows


def entries(row: Row, runs: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an evaluation in its row of ``metrics.csv``, without scores, and the record of its run."""
    texts = {key: row[key] for key in TEXTS if row[key]}
    with _readable(f"{METRICS}: the row of {row['name']!r}"):
        known = texts | {key: json.loads(row[key]) for key in OBJECTS if row[key]}
    return known | {"run": runs.get(row["name"], {}), "leakage": row["leakage"] or None}


def read_runs(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of ``runs.jsonl`` by the name of the run; none without the file."""
    if not (path := folder / RUNS).is_file():
        return {}
    with _readable(path):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        return {line["name"]: line["run"] for line in lines}


def predictions_file(config: str, split: str) -> str:
    """The path of a file of predictions in the folder."""
    return f"{PREDICTIONS}/{config}.{split}.parquet"


def read_predictions(folder: Path, config: str, split: str) -> "pa.Table":
    """The predictions of all runs on a split; raises InputError if the file is missing or damaged."""
    import pyarrow.parquet as pq

    path = folder / predictions_file(config, split)
    with _readable(path):
        return pq.read_table(path)


def of_run(table: "pa.Table", name: str) -> "pa.Table":
    """The rows of a run in a table of predictions."""
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["run"], name))


def _evaluation(row: Row, runs: Mapping[str, Any], table: "pa.Table") -> dict[str, Any]:
    """The evaluation of a row of ``metrics.csv``, whose predictions are in a table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = LABELS[task_of(row["config"])]
    rows, file = of_run(table, row["name"]), predictions_file(row["config"], row["split"])
    if not rows.num_rows:
        raise InputError(f"{METRICS}: {row['name']!r} has no predictions in {file}; add it again")
    result = entries(row, runs) | {"ids": rows["id"].to_pylist()}
    for key, column in (("references", "reference"), ("predictions", "prediction"), ("argmax", "argmax")):
        result[key] = pc.index_in(rows[column], value_set=pa.array(labels)).to_pylist()
    if not rows[labels[0]].null_count:
        columns = [rows[label].to_numpy().astype(float) for label in labels]
        result["probabilities"] = np.round(np.column_stack(columns), DIGITS).tolist()
    result = evaluation(**result)
    for key in ("accuracy", "macro_f1"):  # they differ where the three files were not all written
        with _readable(METRICS):
            saved = float(row[key])
        if not math.isclose(saved, result["metrics"][key]):
            raise InputError(
                f"{METRICS}: {key} of {row['name']!r} is not that of its predictions in {file}; add it again"
            )
    return result
