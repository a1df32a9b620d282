"""Writes an analysis as a folder: tables as CSV, plots as PNG, and one page with all of it."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.decision import IN_USE
from contradiction.errors import InputError
from contradiction.evaluation.error_analysis import ENOUGH, WORST, Records
from contradiction.evaluation.figures import RESAMPLES
from contradiction.evaluation.thresholds import BINS, FEW
from contradiction.io.files import check_folder, new_folder, write_json, write_text
from contradiction.io.tables import Table, as_csv, interval, percent, render, signed, signed_interval, with_interval
from contradiction.reports.analysis import Analysis
from contradiction.reports.analysis_plots import PALETTES, plots, png
from contradiction.training.leakage import exposure, of_evaluation, other_split

PAGE, EVALUATION, TABLES, PLOTS = "index.html", "evaluation.json", "tables", "plots"


def check_place(out: str | Path) -> None:
    """Raises InputError where a folder at ``out`` cannot be written, or where something else is there."""
    out = Path(out)
    check_folder(out)
    names = {PAGE, EVALUATION, TABLES, PLOTS}
    if out.exists() and not (out.is_dir() and {path.name for path in out.iterdir()} <= names):
        raise InputError(f"{out}: holds something else than an analysis, which is not replaced; name a new folder")


def write(analysis: Analysis, out: str | Path) -> Path:
    """Writes ``index.html``, ``evaluation.json``, ``tables/*.csv`` and ``plots/*.png``; replaces an older analysis.

    Raises:
        InputError: ``out`` is something else than an analysis.
    """
    check_place(out)
    with new_folder(out) as folder:
        for name, records in analysis.tables().items():
            write_text(folder / TABLES / f"{name}.csv", as_csv(records))
        (folder / PLOTS).mkdir()
        images: dict[str, dict[str, str]] = {}
        for name, draw in plots(analysis).items():
            images[name] = {}
            for scheme, palette in PALETTES.items():
                image = png(draw, analysis, palette)
                (folder / PLOTS / f"{name}{'' if scheme == 'light' else '-dark'}.png").write_bytes(image)
                images[name][scheme] = f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"
        write_json(folder / EVALUATION, analysis.evaluated.evaluation)
        write_text(folder / PAGE, page(analysis, images))
    return Path(out)


def page(analysis: Analysis, images: Mapping[str, Mapping[str, str]]) -> str:
    """The page as self-contained HTML; ``images`` maps plot -> scheme (``light``, ``dark``) -> address of the image."""
    evaluation = analysis.evaluated.evaluation
    return render(
        "analysis.html",
        name=evaluation["name"],
        config=evaluation["config"],
        split=evaluation["split"],
        n=len(analysis.evaluated.rows),
        evaluation=EVALUATION,
        trained_on=_other_split(evaluation),
        key_figures=_key_figures(analysis),
        images=images,
        classes=_classes(analysis),
        comparison=_comparison(analysis),
        slices=_slices(analysis),
        absent=any(record["absent"] for record in analysis.slices),
        personas=_personas(analysis.personas),
        removal=analysis.removal and _removal(analysis.removal),
        removal_note=analysis.removal_note,
        reliability=_reliability(analysis.reliability),
        calibration_error=percent(analysis.calibration_error),
        brier=f"{analysis.brier:.3f}",
        brier_of_prior=f"{analysis.prior * (1 - analysis.prior):.3f}",
        prior=percent(analysis.prior),
        in_use=percent(IN_USE, 0),
        points=_points(analysis.operating_points, analysis.prior),
        errors=len(analysis.mistakes),
        worst=_worst(analysis),
        shown=min(WORST, len(analysis.mistakes)),
        enough=ENOUGH,
        few=FEW,
        bins=BINS,
        resamples=RESAMPLES,
        run=evaluation.get("run") or {},
        columns=", ".join(evaluation.get("columns") or ()),
    )


def _other_split(evaluation: Mapping[str, Any]) -> str | None:
    """The config of the training data, where that is the other split and may contain evaluated rows; else None."""
    if not of_evaluation(evaluation):
        return None
    leak = exposure(evaluation.get("run") or {}, evaluation["config"], evaluation["split"])
    return leak.config if leak and other_split(leak.config, evaluation["config"]) else None


def _key_figures(analysis: Analysis) -> list[tuple[str, str, str]]:
    """The name, value and note of each figure at the top of the page."""
    metrics = analysis.evaluated.evaluation["metrics"]
    figures = [
        ("macro-F1", percent(metrics["macro_f1"]), interval(metrics["interval"]["macro_f1"])),
        ("accuracy", percent(metrics["accuracy"]), interval(metrics["interval"]["accuracy"])),
    ]
    if "two_class" in metrics:
        merged = metrics["two_class"]
        figures.append(("macro-F1, 2-class", percent(merged["macro_f1"]), interval(merged["interval"]["macro_f1"])))
    figures += [
        ("average precision", percent(analysis.average_precision), f"{percent(analysis.prior)} at random"),
        ("calibration error", percent(analysis.calibration_error), "points; 0 is best"),
    ]
    turned = next((record for record in analysis.removal or () if record["should"] == "turn" and record["asked"]), None)
    if turned:
        figures.append(("history verdicts turned", percent(turned["rate"]), interval((turned["low"], turned["high"]))))
    return figures


def _interval(record: Mapping[str, Any]) -> str:
    return interval((record["low"], record["high"]))


def _classes(analysis: Analysis) -> Table:
    body = [
        (record["label"], *(percent(record[key]) for key in ("precision", "recall", "f1")), f"{record['support']:,}")
        for record in analysis.classes
    ]
    return Table("Each class", ("class", "precision, %", "recall, %", "F1, %", "rows"), body)


def _comparison(analysis: Analysis) -> Table:
    body = []
    for record in analysis.comparison:
        cells = [record["name"], percent(record["macro_f1"]), _interval(record)]
        if "p_value" in record:
            difference, bounds = record["difference"], (record["difference_low"], record["difference_high"])
            cells += [text.replace("-", "\N{MINUS SIGN}") for text in (signed(difference), signed_interval(bounds))]
            cells.append(f"{record['p_value']:.3f}")
        body.append([*cells, *[""] * (6 - len(cells))])
    header = ("", "macro-F1, %", "95 % interval", "detector minus baseline", "95 % interval", "p")
    return Table("Compared with the artefact baselines", header, body)


def _slices(analysis: Analysis) -> Table:
    merged = "merged_macro_f1" in analysis.slices[0]
    body = []
    for record in analysis.slices:
        cells = [
            record["slice"] if record["slice"] == record["by"] else f"{record['by']}: {record['slice']}",
            f"{record['n']:,}",
            percent(record["contradictions"] / record["n"]),
            percent(record["macro_f1"]) + (" *" if record["absent"] else ""),
            _interval(record),
        ]
        if merged:
            cells += [percent(record["merged_macro_f1"]), interval((record["merged_low"], record["merged_high"]))]
        body.append(cells)
    header = ["slice", "rows", "contradictions, %", "macro-F1, %", "95 % interval"]
    return Table("Slices", header + (["merged to 2-class, %", "95 % interval"] if merged else []), body)


def _personas(records: Records) -> Table:
    body = [
        (
            record["persona"],
            f"{record['n']:,}",
            f"{record['found']:,}",
            percent(record["recall"]),
            _interval(record),
        )
        for record in records
    ]
    return Table("History contradictions by persona", ("persona", "rows", "found", "recall, %", "95 % interval"), body)


def _removal(records: Records) -> Table:
    body = [
        (
            record["label"],
            f"{record['n']:,}",
            percent(record["called"] / record["n"]),
            percent(record["called_without"] / record["n"]),
            record["should"] or "–",
            f"{record['right']:,} of {record['asked']:,}" if record["should"] else "–",
            "–" if record["rate"] is None else percent(record["rate"]),
            "–" if record["rate"] is None else _interval(record),
        )
        for record in records
    ]
    header = ("label", "rows", "called, %", "without turn 1, %", "verdict should", "did so", "%", "95 % interval")
    return Table("Without the first turn", header, body)


def _reliability(records: Records) -> Table:
    body = [
        (
            str(number),
            f"{record['n']:,}",
            percent(record["mean_probability"]),
            percent(record["share"]),
            _interval(record),
        )
        for number, record in enumerate(records, start=1)
    ]
    return Table("Bins", ("bin", "rows", "mean P(contradiction), %", "contradictions, %", "95 % interval"), body)


def _points(records: Records, prior: float) -> Table:
    body = [
        (
            f"{100 * record['prior']:.3g} %{', as here' if record['prior'] == prior else ''}",
            f"{percent(record['wanted'], 0)} %",
            standing(record),
            with_interval(record["precision"], (record["low"], record["high"])),
            percent(record["recall"]),
            f"{record['threshold']:.3f}",
            f"{record['true_positives']:,} / {record['false_positives']:,}",
            f"{record['alarms_per_1000']:.1f}",
        )
        for record in records
    ]
    header = (
        "contradictions", "precision wanted", "", "precision, % (95 %)", "recall, %", "threshold",
        "hits / false alarms", "alarms per 1,000",
    )  # fmt: skip
    return Table("Operating points", header, body)


def standing(point: Mapping[str, Any]) -> str:
    """Whether an operating point can be reached, in words."""
    if not point["reached"]:
        return "not reachable; the best is"
    if point["low"] < point["wanted"] and point["false_positives"] < FEW:
        return "reached, on few false alarms"
    return "reached"


def _worst(analysis: Analysis) -> list[dict[str, Any]]:
    """Each kind of mistakes, with its rows among the worst mistakes."""
    worst = analysis.mistakes[:WORST]
    first = next((kind for kind in analysis.kinds if kind["among_worst"]), None)
    return [
        {
            **kind,
            "open": kind is first,
            "rows": [record for record in worst if all(record[key] == kind[key] for key in ("label", "predicted"))],
        }
        for kind in analysis.kinds
    ]
