"""Where a detector fails, from one evaluation: plots and tables, which the page in `space/` shows.

    python -m experiments.analyze e5-small-long-replies --out space/analysis

Macro-F1 by trigger, bot, batch, length of the reply, and by whether training has the same context; the baselines on
the same rows; calibration; precision and recall at every threshold.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from contradiction import cli
from contradiction.commands.common import DATA, DataOption
from contradiction.data.splits import load_split
from contradiction.decision import IN_USE
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.figures import are_contradictions, contradiction_probabilities, measure
from contradiction.io.files import new_folder, write_text
from contradiction.labels import CONTRADICTION, LABELS, task_of
from evaluate_metric.evaluate_metric import compare
from experiments.analysis_plots import PALETTES, PLOTS, Analysis, png
from experiments.operating_points import Records, operating_points, reliability, threshold_curve
from paper.saved_results import as_csv

ALL = "all rows"
BY = {
    "trigger": "trigger",
    "bot": "bot",
    "batch": "batch",
    "length": "reply length, characters",
    "seen_context": "u1, b1, u2 in training",
    "seen_u1": "u1 in training",
}
SEEN = {"seen_context": ("u1", "b1", "u2"), "seen_u1": ("u1",)}


def analyse(evaluation: Mapping[str, Any], data: str | Path) -> Analysis:
    """Analyses an evaluation with probabilities on a split of a data repo of CDConv."""
    split = load_split(data, evaluation["config"], evaluation["split"])
    if split["id"][:] != list(evaluation["ids"]) or split["label"][:] != list(evaluation["references"]):
        raise InputError(f"{evaluation['name']}: evaluated on other rows than the split of {evaluation['config']!r}")
    if missing := [column for column in ("trigger", "bot", "batch") if column not in split.column_names]:
        raise InputError(f"{data}: the rows of {evaluation['config']!r} have no {', '.join(missing)}")
    task = task_of(evaluation["config"])
    truth = are_contradictions(task, evaluation["references"])
    # Saved probabilities are rounded, so their sum may slightly exceed 1.
    probabilities = np.clip(contradiction_probabilities(task, evaluation["probabilities"]), 0, 1)
    if truth.all() or not truth.any():
        raise InputError(f"{data}: {evaluation['config']!r} needs both contradictions and other replies")
    curve, prior = threshold_curve(truth, probabilities), float(truth.mean())
    return Analysis(
        evaluation=evaluation,
        truth=truth,
        probabilities=probabilities,
        prior=prior,
        slices=slices(evaluation, _groups(split, load_split(data, evaluation["config"], "train"))),
        classes=[{"label": label, **scores} for label, scores in evaluation["metrics"]["per_class"].items()],
        comparison=_comparison(evaluation),
        reliability=reliability(truth, probabilities),
        curve=curve,
        operating_points=[point for share in (prior, IN_USE) for point in operating_points(curve, share)],
    )


def _groups(split: Any, train: Any) -> dict[str, list[str]]:
    """The group of each row, by each key of ``BY``."""
    groups = {key: split.features[key].int2str(split[key][:]) for key in ("trigger", "bot")}
    groups |= {"batch": list(map(str, split["batch"][:])), "length": quartiles([len(text) for text in split["b2"][:]])}
    for key, columns in SEEN.items():
        known = set(zip(*(train[column][:] for column in columns), strict=True))
        contexts = zip(*(split[column][:] for column in columns), strict=True)
        groups[key] = ["seen" if context in known else "unseen" for context in contexts]
    return {key: groups[key] for key in BY}


def quartiles(lengths: Sequence[int]) -> list[str]:
    """The quarter of each length, named by its shortest and longest length; equal lengths share a quarter."""
    quarter = np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths, side="left")
    names = {}
    for index in set(quarter.tolist()):
        inside = np.array(lengths)[quarter == index]
        low, high = inside.min(), inside.max()
        names[index] = str(low) if low == high else f"{low}–{high}"
    return [names[index] for index in quarter.tolist()]


def slices(evaluation: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> Records:
    """Macro-F1 of all rows and of every group of rows, with 95 % bootstrap intervals over the rows of the group.

    ``absent`` are the labels that none of its rows has; for four classes, ``merged_…`` counts the kinds as one label.
    """
    from contradiction import cdconv

    triggers = list(cdconv.TRIGGERS.values())
    order = {"trigger": triggers.index, "length": lambda name: int(name.partition("–")[0])}
    records = [_score(evaluation, np.ones(len(evaluation["references"]), dtype=bool), ALL, ALL)]
    for key, column in groups.items():
        for name in sorted(set(column), key=order.get(key)):
            records.append(_score(evaluation, np.array(column) == name, BY[key], name))
    return records


def _score(evaluation: Mapping[str, Any], mask: np.ndarray, by: str, name: str) -> dict[str, Any]:
    references, predictions = (np.array(evaluation[key])[mask].tolist() for key in ("references", "predictions"))
    metrics, task = measure(evaluation["config"], references, predictions), task_of(evaluation["config"])
    record = {
        "by": by,
        "slice": name,
        "n": metrics["n"],
        "contradictions": int(are_contradictions(task, references).sum()),
        **_macro_f1(metrics),
        "accuracy": metrics["accuracy"],
        "absent": ", ".join(label for index, label in enumerate(LABELS[task]) if index not in references),
    }
    if "two_class" in metrics:
        record |= {f"merged_{key}": value for key, value in _macro_f1(metrics["two_class"]).items()}
    return record


def _macro_f1(metrics: Mapping[str, Any]) -> dict[str, float]:
    low, high = metrics["interval"]["macro_f1"]
    return {"macro_f1": metrics["macro_f1"], "low": low, "high": high}


def _comparison(evaluation: Mapping[str, Any]) -> Records:
    """The detector, then the saved baselines on the same rows with the paired difference of the detector to them."""
    records = [_summary(evaluation)]
    for baseline in results.baselines(evaluation["config"], evaluation["split"], data=evaluation["data"]):
        labels = evaluation["references"], evaluation["predictions"], baseline["predictions"]
        test = compare(*labels, task_of(evaluation["config"]))
        low, high = test["interval"]["macro_f1_difference"]
        difference = {"difference": test["macro_f1_difference"], "difference_low": low, "difference_high": high}
        records.append({**_summary(baseline), **difference, "p_value": test["p_value"]})
    return records


def _summary(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    metrics = evaluation["metrics"]
    merged = metrics.get("two_class", metrics)
    (right, alarms), _ = merged["confusion_matrix"]
    return {
        "name": evaluation["name"],
        **_macro_f1(metrics),
        **{key: merged["per_class"][CONTRADICTION][key] for key in ("precision", "recall")},
        "false_alarm_rate": alarms / (right + alarms) if right + alarms else 0.0,
    }


def write(analysis: Analysis, out: str | Path) -> None:
    """Writes ``tables/*.csv`` and ``plots/*.png``, those for dark pages as ``*-dark.png``; replaces ``out``."""
    with new_folder(out) as folder:
        for name in ("classes", "comparison", "operating_points", "slices"):
            write_text(folder / "tables" / f"{name}.csv", as_csv(getattr(analysis, name)))
        (folder / "plots").mkdir()
        for name, draw in PLOTS.items():
            for scheme, palette in PALETTES.items():
                file = folder / "plots" / f"{name}{'' if scheme == 'light' else '-dark'}.png"
                file.write_bytes(png(draw, analysis, palette))


def main(
    evaluation: Annotated[
        str, typer.Argument(help="A JSON file that `cdconv evaluate --json` wrote, or a name in the saved results.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write; an older analysis there is replaced.")],
    data: DataOption = DATA,
) -> None:
    """Writes plots and tables that show where a detector fails."""
    if Path(evaluation).is_file():
        found = results.read_evaluation(evaluation)
    else:
        saved = results.load(names=[evaluation], config="4-class", split="test")
        if not saved or "probabilities" not in saved[0]:
            raise InputError(f"{evaluation}: neither a file nor the name of a saved 4-class evaluation")
        found = saved[0]
    if out.exists() and {path.name for path in out.iterdir()} - {"tables", "plots"}:
        raise InputError(f"{out}: holds something else than an analysis; name a new folder")
    write(analyse(found, data), out)
    print(f"{out}: written")


if __name__ == "__main__":
    cli.main(cli.script(main))
