"""The files of the saved results: metrics as CSV, the records of runs as JSON lines, predictions as Parquet.

``metrics.csv`` has a row for each evaluation: its description, and every score with its 95 % interval.
``runs.jsonl`` has a line for each detector: its name and the record of its training.
``predictions/<config>.<split>.parquet`` has a row for each run and data row: id, reference, prediction, argmax (the
most probable label, without the decision rule), and the probability of each label, rounded to four digits.

In all three, a name identifies one run. See :mod:`contradiction.evaluation.results`, which reads and writes them.
"""

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.errors import InputError
from contradiction.evaluation.figures import FIGURES, RESAMPLES, measure
from contradiction.io.files import new_file, write_text
from contradiction.io.tables import as_csv
from contradiction.labels import LABELS, task_of
from contradiction.training import leakage, record

if TYPE_CHECKING:
    import pyarrow as pa

METRICS, RUNS, PREDICTIONS = "metrics.csv", "runs.jsonl", "predictions"
# Entries of an evaluation that are text, and those that are stored as JSON.
TEXTS = ("name", "page", "kind", "config", "split", "data", "data_name", "view")
OBJECTS = ("columns", "truncated", "request", "rule")
DESCRIPTION = (*TEXTS, *OBJECTS, "n", "seed", "leakage")
# The description of a bootstrap interval.
DRAWN = {"confidence_level": 0.95, "resamples": RESAMPLES, "seed": 0, "stratified": False}
DIGITS = 4
Row = dict[str, str]


def read(folder: Path, wanted: Callable[[Row], bool], with_rows: bool = True) -> list[dict[str, Any]]:
    """The evaluations of the wanted rows of ``metrics.csv``; none without that file.

    Without the predictions it is fast, and there are only the scores of ``FIGURES``.

    Raises:
        InputError: a file is missing or damaged, or scores differ from those of the predictions.
    """
    rows = [row for row in read_metrics(folder) if wanted(row)]
    runs = read_runs(folder) if rows else {}
    if not with_rows:
        return [_summary(row, runs) for row in rows]
    tables = {place: _read_predictions(folder, *place) for place in {(row["config"], row["split"]) for row in rows}}
    return [_evaluation(folder, row, runs, tables[row["config"], row["split"]]) for row in rows]


def write(folder: Path, rows: Sequence[Row], runs: Mapping[str, Any], added: Iterable[Mapping[str, Any]]) -> None:
    """Writes all three kinds of files; each replaces the previous one once it is complete.

    ``rows`` and ``runs`` are complete. The predictions in ``added`` replace those of runs with the same names.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    changed: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in added:
        changed.setdefault((result["config"], result["split"]), []).append(result)
    for (config, split), results in changed.items():
        names = {row["name"] for row in rows if (row["config"], row["split"]) == (config, split)}
        tables = {result["name"]: _prediction_table(result) for result in results}
        if (folder / _predictions_file(config, split)).is_file():
            before = _read_predictions(folder, config, split)
            tables = {name: _of_run(before, name) for name in names - tables.keys()} | tables
        predictions = pa.concat_tables([tables[name] for name in sorted(tables)])
        with new_file(folder / _predictions_file(config, split)) as partial:
            pq.write_table(predictions, partial, compression="zstd", compression_level=19)
    lines = ({"name": name, "run": runs[name]} for name in sorted(runs))
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    write_text(folder / RUNS, text)
    ordered = sorted(rows, key=lambda row: (row["config"], row["split"], row["name"]))
    write_text(folder / METRICS, as_csv(ordered, [*DESCRIPTION, *_figure_columns()]))


def read_metrics(folder: Path) -> list[Row]:
    """The rows of ``metrics.csv``; none without the file."""
    if not (path := folder / METRICS).is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if missing := [column for column in DESCRIPTION if rows and column not in rows[0]]:
        raise InputError(f"{path}: has no column {missing[0]!r}; `python -m paper.results` writes this file")
    return rows


def entries(row: Row, runs: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an evaluation in its row of ``metrics.csv``, without scores, and the record of its run."""
    texts = {key: row[key] for key in TEXTS if row[key]}
    try:
        known = texts | {key: json.loads(row[key]) for key in OBJECTS if row[key]}
    except ValueError as error:
        raise InputError(f"{METRICS}: the row of {row['name']!r} has a cell that is not JSON ({error})") from None
    return known | {"run": runs.get(row["name"], {}), "leakage": row["leakage"] or None}


def read_runs(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of ``runs.jsonl`` by the name of the run; none without the file."""
    if not (path := folder / RUNS).is_file():
        return {}
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        return {line["name"]: line["run"] for line in lines}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not JSON lines with a name and a run ({error})") from None


def metrics_row(result: Mapping[str, Any]) -> Row:
    """The row of an evaluation in ``metrics.csv``."""
    run = result.get("run") or {}
    row = {key: str(result[key]) for key in TEXTS if result.get(key) is not None}
    row |= {key: json.dumps(result[key], ensure_ascii=False) for key in OBJECTS if result.get(key) is not None}
    row |= {"n": str(result["metrics"]["n"]), "seed": seeds_of(run), "leakage": leakage.of_evaluation(result) or ""}
    for prefix, metrics in _metrics_of(result).items():
        for figure in FIGURES:
            if figure.key in metrics:
                row[prefix + figure.key] = repr(metrics[figure.key])
            if bounds := metrics["interval"].get(figure.key):
                row[f"{prefix}{figure.key}_low"], row[f"{prefix}{figure.key}_high"] = map(repr, bounds)
    return row


def _metrics_of(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every set of metrics of an evaluation, by the prefix of its columns."""
    sets: dict[str, dict[str, Any]] = {"": result["metrics"]}
    if "argmax" in result:
        sets["argmax_"] = result["argmax"]["metrics"]
    merged = {f"{prefix}merged_": metrics["two_class"] for prefix, metrics in sets.items() if "two_class" in metrics}
    return sets | merged


def _figure_columns() -> list[str]:
    return [
        f"{prefix}{figure.key}{end}"
        for prefix in ("", "merged_", "argmax_", "argmax_merged_")
        for figure in FIGURES
        for end in ("", "_low", "_high")
    ]


def seeds_of(run: Mapping[str, Any]) -> str:
    """The seeds of a run, or of the members of a soup or an ensemble."""
    runs = record.members(run) or [dict(run)]
    seeds = [member.get("request", {}).get("recipe", {}).get("seed") for member in runs]
    return " / ".join(dict.fromkeys(str(seed) for seed in seeds if seed is not None))


def _predictions_file(config: str, split: str) -> str:
    return f"{PREDICTIONS}/{config}.{split}.parquet"


def _read_predictions(folder: Path, config: str, split: str) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / _predictions_file(config, split)
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file, but {METRICS} names runs in it; restore it, or add them again"
        ) from None
    except pa.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file ({error})") from None


def _prediction_table(result: Mapping[str, Any]) -> "pa.Table":
    """The rows of an evaluation in its Parquet file."""
    import pyarrow as pa

    labels = LABELS[task_of(result["config"])]
    rows = len(result["ids"])
    names = {
        "reference": result["references"],
        "prediction": result["predictions"],
        "argmax": result.get("argmax", result)["predictions"],
    }
    columns = {"run": pa.array([result["name"]] * rows), "id": pa.array(result["ids"], pa.int32())}
    columns |= {key: pa.array([labels[label] for label in values]) for key, values in names.items()}
    if "probabilities" in result:
        probabilities = np.round(np.array(result["probabilities"], dtype=float), DIGITS)
        columns |= {label: pa.array(probabilities[:, i], pa.float32()) for i, label in enumerate(labels)}
    else:
        columns |= {label: pa.nulls(rows, pa.float32()) for label in labels}
    return pa.table(columns)


def _of_run(table: "pa.Table", name: str) -> "pa.Table":
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["run"], name))


def _summary(row: Row, runs: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation without predictions, from its row of ``metrics.csv``."""

    def figures(prefix: str) -> dict[str, Any]:
        values = {figure.key: float(row[prefix + figure.key]) for figure in FIGURES if row.get(prefix + figure.key)}
        return values | {"n": int(row["n"]), "interval": _intervals(row, prefix)}

    result = entries(row, runs)
    for key, prefix in (("metrics", ""), ("argmax", "argmax_")):
        if metrics := figures(prefix) if row.get(f"{prefix}{FIGURES[0].key}") else None:
            if row.get(f"{prefix}merged_{FIGURES[0].key}"):
                metrics["two_class"] = figures(f"{prefix}merged_")
            result[key] = metrics if key == "metrics" else {"metrics": metrics}
    return result


def _evaluation(folder: Path, row: Row, runs: Mapping[str, Any], table: "pa.Table") -> dict[str, Any]:
    """The evaluation of a row of ``metrics.csv``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    place = f"{folder / METRICS}: {row['name']!r} on {row['config']}, {row['split']} split"
    labels = LABELS[task_of(row["config"])]
    rows = _of_run(table, row["name"])
    if not rows.num_rows:
        file = _predictions_file(row["config"], row["split"])
        raise InputError(f"{place}: has no predictions in {file}; add it again")
    names = pa.array(labels)
    references, predictions, argmax = (
        pc.index_in(rows[column], value_set=names).to_pylist() for column in ("reference", "prediction", "argmax")
    )
    result = entries(row, runs)
    probabilities = None
    if not rows[labels[0]].null_count:
        columns = [rows[label].to_numpy().astype(float) for label in labels]
        probabilities = np.round(np.column_stack(columns), DIGITS).tolist()
        result["probabilities"] = probabilities
    result["metrics"] = measure(row["config"], references, predictions, probabilities, bootstrap=0)
    if argmax != predictions:
        metrics = measure(row["config"], references, argmax, probabilities, bootstrap=0)
        result["argmax"] = {"metrics": metrics, "predictions": argmax}
    result |= {"ids": rows["id"].to_pylist(), "references": references, "predictions": predictions}
    for prefix, figures in _metrics_of(result).items():
        figures["interval"] = _intervals(row, prefix)
        for column, value in ((prefix + figure.key, figures[figure.key]) for figure in FIGURES if not figure.compute):
            if not math.isclose(value, float(row.get(column) or "nan")):
                raise InputError(
                    f"{place}: {column} is {row.get(column, '')}, but {value} by the predictions; add it again"
                )
    return result


def _intervals(row: Row, prefix: str) -> dict[str, Any]:
    columns = {figure.key: [f"{prefix}{figure.key}_{end}" for end in ("low", "high")] for figure in FIGURES}
    bounds = {key: [float(row[name]) for name in names] for key, names in columns.items() if row.get(names[0])}
    return bounds | DRAWN
