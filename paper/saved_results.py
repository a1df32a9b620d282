"""Writes the saved results, whose files :mod:`contradiction.evaluation.results` describes and reads."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.data.splits import SPLITS
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.figures import FIGURES, measure
from contradiction.evaluation.results import METRICS, OBJECTS, RUNS, TEXTS, Row, place_of
from contradiction.io.files import locked, new_file, read_json, write_text
from contradiction.labels import CHECKLISTS, CONFIGS, LABELS, task_of
from contradiction.paths import RESULTS
from contradiction.training import record

if TYPE_CHECKING:
    import pyarrow as pa

# Whether the page of results shows an evaluation. The others are only in the files, for instance for the tables of
# `python -m paper.reproduce`.
RESULTS_PAGE = "results"
PAGES = (RESULTS_PAGE, "files")


def as_csv(records: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Records as CSV with a header; None and a missing value are empty cells. The columns are by default all keys."""
    text = StringIO()
    keys = columns or list(dict.fromkeys(key for record in records for key in record))
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def published(folder: str | Path = RESULTS) -> list[dict[str, Any]]:
    """The evaluations of detectors and baselines on the page of results."""
    return [result for result in results.load(folder) if result.get("page", RESULTS_PAGE) == RESULTS_PAGE]


def best_first(evaluations: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The evaluations in descending order of macro-F1."""
    return sorted(evaluations, key=lambda result: -result["metrics"]["macro_f1"])


def is_crossed(result: Mapping[str, Any]) -> bool:
    """Whether a file of ``cdconv evaluate --json`` is about the test split of the crossed chats."""
    figures = result.get("metrics") or {}  # which baselines lack
    return (result.get("config"), result.get("split")) == ("crossed", "test") and "in_order" in figures


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
            if is_crossed(result):
                evaluations.append(result)
            elif result.get("kind") in results.KINDS or not path.is_dir():
                results.check(file, result)
                evaluations.append(result)
        if len(evaluations) == found:
            raise InputError(f"{path}: no evaluation in it; `cdconv evaluate MODEL --json FILE` writes one")
    return evaluations


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
        _check_complete(result)
    with locked(folder / METRICS, wait=True):
        rows = {(row["name"], row["config"], row["split"]): row for row in results.read_metrics(folder)}
        runs = results.read_runs(folder)
        known = {row["name"]: _identity(results.entries(row, runs)) for row in rows.values()}
        for result in added:
            name = result["name"]
            if known.setdefault(name, _identity(result)) != _identity(result):
                raise InputError(f"{folder}: contains another run named {name!r}; rename one of them")
            if rows.get(place_of(result), result)["data"] != result["data"]:
                raise InputError(f"{folder}: {results.other_rows(result)}")
            rows[place_of(result)] = _metrics_row(result)
            if result.get("run"):
                runs[name] = result["run"]
        _write(folder, [*rows.values()], runs, added)


def _identity(result: Mapping[str, Any]) -> tuple[Any, ...]:
    """The identity of the run of an evaluation."""
    run = results.run_identity(result.get("run") or {})
    return result["kind"], run, result.get("request")


def _check_complete(result: Mapping[str, Any]) -> None:
    """Raises InputError for an evaluation that could not be read again, or whose scores do not match its labels."""
    name, config, split = result["name"], result["config"], result["split"]
    if not isinstance(name, str) or not name:
        raise InputError(f"name {name!r}: an evaluation needs the name of its detector")
    if config not in (*CONFIGS, *CHECKLISTS) or split not in SPLITS:
        raise InputError(f"{name}: there is no {split!r} split of a config {config!r}")
    results.check_values(name, result)
    if wrong := [value for value in result["ids"] if not isinstance(value, int) or not 0 <= value < 2**31]:
        raise InputError(f"{name}: id {wrong[0]!r} is not a whole number from 0 to {2**31 - 1}")
    if argmax := result.get("argmax"):
        if not isinstance(argmax, Mapping):
            raise InputError(f"{name}: argmax is {argmax!r}; it must be an object with metrics and predictions")
        results.check_values(f"{name}: argmax", {**result, "predictions": argmax.get("predictions")})
    if not record.is_record(result.get("run") or {}):
        raise InputError(f"{name}: run is not the record of a training")
    metrics = measure(config, result["references"], result["predictions"], bootstrap=0)
    for key in ("accuracy", "macro_f1"):
        if not isinstance(given := result["metrics"][key], int | float) or not abs(given - metrics[key]) <= 1e-6:
            raise InputError(f"{name}: {key} is {given!r}, but {metrics[key]:.6f} by the predictions")


def _write(folder: Path, rows: Sequence[Row], runs: Mapping[str, Any], added: Iterable[Mapping[str, Any]]) -> None:
    """Writes all three kinds of files; each replaces the previous one once it is complete.

    ``rows`` and ``runs`` are complete. The predictions in ``added`` replace those of runs with the same names.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    changed: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for result in added:
        changed.setdefault((result["config"], result["split"]), []).append(result)
    for (config, split), parts in changed.items():
        names = {row["name"] for row in rows if (row["config"], row["split"]) == (config, split)}
        tables = {result["name"]: _prediction_table(result) for result in parts}
        if (folder / results.predictions_file(config, split)).is_file():
            before = results.read_predictions(folder, config, split)
            tables = {name: results.of_run(before, name) for name in names - tables.keys()} | tables
        predictions = pa.concat_tables([tables[name] for name in sorted(tables)])
        with new_file(folder / results.predictions_file(config, split)) as partial:
            pq.write_table(predictions, partial, compression="zstd", compression_level=19)
    lines = ({"name": name, "run": runs[name]} for name in sorted(runs))
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    write_text(folder / RUNS, text)
    ordered = sorted(rows, key=lambda row: (row["config"], row["split"], row["name"]))
    write_text(folder / METRICS, as_csv(ordered, [*results.DESCRIPTION, *_figure_columns()]))


def _metrics_row(result: Mapping[str, Any]) -> Row:
    """The row of an evaluation in ``metrics.csv``."""
    run = result.get("run") or {}
    row = {key: str(result[key]) for key in TEXTS if result.get(key) is not None}
    row |= {key: json.dumps(result[key], ensure_ascii=False) for key in OBJECTS if result.get(key) is not None}
    row |= {"n": str(result["metrics"]["n"]), "seed": seeds_of(run), "leakage": result.get("leakage") or ""}
    for prefix, metrics in _metrics_of(result).items():
        for figure in FIGURES:
            if figure.key in metrics:
                row[prefix + figure.key] = repr(metrics[figure.key])
            if bounds := metrics["interval"].get(figure.key):
                row[f"{prefix}{figure.key}_low"], row[f"{prefix}{figure.key}_high"] = map(repr, bounds)
    return row


def _figure_columns() -> list[str]:
    return [
        f"{prefix}{figure.key}{end}"
        for prefix in ("", "merged_", "argmax_", "argmax_merged_")
        for figure in FIGURES
        for end in ("", "_low", "_high")
    ]


def _metrics_of(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every set of metrics of an evaluation, by the prefix of its columns."""
    sets: dict[str, dict[str, Any]] = {"": result["metrics"]}
    if "argmax" in result:
        sets["argmax_"] = result["argmax"]["metrics"]
    merged = {f"{prefix}merged_": metrics["two_class"] for prefix, metrics in sets.items() if "two_class" in metrics}
    return sets | merged


def seeds_of(run: Mapping[str, Any]) -> str:
    """The seeds of a run, or of the members of a soup or an ensemble."""
    runs = record.members(run) or [dict(run)]
    seeds = [member.get("request", {}).get("recipe", {}).get("seed") for member in runs]
    return " / ".join(dict.fromkeys(str(seed) for seed in seeds if seed is not None))


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
        probabilities = np.round(np.array(result["probabilities"], dtype=float), results.DIGITS)
        columns |= {label: pa.array(probabilities[:, i], pa.float32()) for i, label in enumerate(labels)}
    else:
        columns |= {label: pa.nulls(rows, pa.float32()) for label in labels}
    return pa.table(columns)
