"""Writes an analysis as a folder: tables as CSV, plots as PNG, and one page that holds all of it."""

import base64
import csv
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from contradiction.errors import InputError
from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.files import check_folder, new_folder, write_json, write_text
from contradiction.io.tables import Table, interval, percent
from contradiction.io.templates import render
from contradiction.rates import IN_USE
from contradiction.reports.analysis.errors import ENOUGH, WORST
from contradiction.reports.analysis.figures import Analysis
from contradiction.reports.analysis.plots import LOOKS, drawings, png
from contradiction.reports.analysis.scores import BINS, FEW
from contradiction.reports.analysis.slices import Records
from contradiction.training.leakage import exposure, of_evaluation, other_split

PAGE, KEPT, TABLES, PLOTS = "index.html", "evaluation.json", "tables", "plots"


def check_place(out: str | Path) -> None:
    """Raises InputError unless a folder can be written at ``out`` without anybody's work being lost."""
    out = Path(out)
    check_folder(out)
    if out.exists() and not (out.is_dir() and {each.name for each in out.iterdir()} <= {PAGE, KEPT, TABLES, PLOTS}):
        raise InputError(f"{out}: holds something else than an analysis, so it will not be replaced; name a new folder")


def write(analysis: Analysis, out: str | Path) -> Path:
    """Writes ``index.html``, ``evaluation.json``, ``tables/*.csv`` and ``plots/*.png``; a folder of before is replaced.

    Raises:
        InputError: ``out`` is something else than an analysis.
    """
    check_place(out)
    with new_folder(out) as folder:
        for name, records in analysis.tables().items():
            write_text(folder / TABLES / f"{name}.csv", as_csv(records))
        (folder / PLOTS).mkdir()
        images: dict[str, dict[str, str]] = {}
        for name, draw in drawings(analysis).items():
            images[name] = {}
            for scheme, look in LOOKS.items():
                image = png(draw, analysis, look)
                (folder / PLOTS / f"{name}{'' if scheme == 'light' else '-dark'}.png").write_bytes(image)
                images[name][scheme] = f"data:image/png;base64,{base64.b64encode(image).decode('ascii')}"
        write_json(folder / KEPT, analysis.material.result)
        write_text(folder / PAGE, page(analysis, images))
    return Path(out)


def as_csv(records: Records) -> str:
    """Records as CSV with a header; what is None is an empty cell."""
    text = StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for each in records for key in each)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def page(analysis: Analysis, images: Mapping[str, Mapping[str, str]]) -> str:
    """The page in HTML, which needs no other file.

    Args:
        analysis: the figures.
        images: plot -> scheme (``light``, ``dark``) -> address of the image.
    """
    material = analysis.material
    result = material.result
    return render(
        "analysis.html",
        name=result["name"],
        config=result["config"],
        split=result["split"],
        n=len(material.rows),
        kept=KEPT,
        trained_on=_other_split(result),
        key_figures=_key_figures(analysis),
        images=images,
        classes=_classes(analysis),
        comparison=_comparison(analysis),
        slices=_slices(analysis),
        absent=any(each["absent"] for each in analysis.slices),
        personas=_personas(analysis.personas),
        removal=analysis.removal and _removal(analysis.removal),
        removal_note=analysis.removal_note,
        reliability=_reliability(analysis.reliability),
        ece=percent(analysis.calibration_error),
        brier=f"{analysis.brier:.3f}",
        brier_of_prior=f"{analysis.brier_of_prior:.3f}",
        prior=percent(analysis.prior),
        in_use=percent(IN_USE, 0),
        points=_points(analysis.operating_points, analysis.prior),
        errors=len(analysis.errors),
        worst=_worst(analysis),
        shown=min(WORST, len(analysis.errors)),
        enough=ENOUGH,
        few=FEW,
        bins=BINS,
        resamples=RESAMPLES,
        run=result.get("run") or {},
        columns=", ".join(result.get("columns") or ()),
    )


def _other_split(result: Mapping[str, Any]) -> str | None:
    """The config trained on, where its training split may hold rows of the one that was scored; else None."""
    if not of_evaluation(result):
        return None
    found = exposure(result.get("run") or {}, result["config"], result["split"])
    return found.config if found and other_split(found.config, result["config"]) else None


def _key_figures(analysis: Analysis) -> list[tuple[str, str, str]]:
    """Name, figure and what is beside it, of the figures on top."""
    metrics = analysis.material.result["metrics"]
    found = [
        ("macro-F1", percent(metrics["macro_f1"]), interval(metrics["interval"]["macro_f1"])),
        ("accuracy", percent(metrics["accuracy"]), interval(metrics["interval"]["accuracy"])),
    ]
    if "two_class" in metrics:
        merged = metrics["two_class"]
        found.append(("macro-F1, 2-class", percent(merged["macro_f1"]), interval(merged["interval"]["macro_f1"])))
    found += [
        ("average precision", percent(analysis.average_precision), f"{percent(analysis.prior)} at random"),
        ("calibration error", percent(analysis.calibration_error), "points; 0 is best"),
    ]
    if turned := next((each for each in analysis.removal or () if each["should"] == "turn" and each["asked"]), None):
        found.append(("history verdicts turned", percent(turned["rate"]), interval((turned["low"], turned["high"]))))
    return found


def _classes(analysis: Analysis) -> Table:
    body = [
        (each["label"], *(percent(each[key]) for key in ("precision", "recall", "f1")), f"{each['support']:,}")
        for each in analysis.classes
    ]
    return Table("Each class", ("class", "precision, %", "recall, %", "F1, %", "rows"), body)


def _comparison(analysis: Analysis) -> Table:
    body = []
    for each in analysis.comparison:
        cells = [each["name"], percent(each["macro_f1"]), interval((each["low"], each["high"]))]
        if "p_value" in each:
            bounds = " to ".join(_signed(each[key]) for key in ("difference_low", "difference_high"))
            cells += [_signed(each["difference"]), bounds, f"{each['p_value']:.3f}"]
        body.append([*cells, *[""] * (6 - len(cells))])
    header = ("", "macro-F1, %", "95 % interval", "detector minus it", "95 % interval", "p")
    return Table("Beside the artefact baselines", header, body)


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _slices(analysis: Analysis) -> Table:
    merged = "merged_macro_f1" in analysis.slices[0]
    body = []
    for each in analysis.slices:
        cells = [
            each["slice"] if each["slice"] == each["by"] else f"{each['by']}: {each['slice']}",
            f"{each['n']:,}",
            percent(each["contradictions"] / each["n"]),
            percent(each["macro_f1"]) + (" *" if each["absent"] else ""),
            interval((each["low"], each["high"])),
        ]
        if merged:
            cells += [percent(each["merged_macro_f1"]), interval((each["merged_low"], each["merged_high"]))]
        body.append(cells)
    header = ["slice", "rows", "contradictions, %", "macro-F1, %", "95 % interval"]
    return Table("Slices", header + (["merged to 2-class, %", "95 % interval"] if merged else []), body)


def _personas(records: Records) -> Table:
    body = [
        (
            each["persona"],
            f"{each['n']:,}",
            f"{each['found']:,}",
            percent(each["recall"]),
            interval((each["low"], each["high"])),
        )
        for each in records
    ]
    return Table("History contradictions by persona", ("persona", "rows", "found", "recall, %", "95 % interval"), body)


def _removal(records: Records) -> Table:
    body = [
        (
            each["label"],
            f"{each['n']:,}",
            percent(each["called"] / each["n"]),
            percent(each["called_without"] / each["n"]),
            each["should"] or "–",
            f"{each['right']:,} of {each['asked']:,}" if each["should"] else "–",
            "–" if each["rate"] is None else percent(each["rate"]),
            "–" if each["rate"] is None else interval((each["low"], each["high"])),
        )
        for each in records
    ]
    header = ("label", "rows", "called, %", "without turn 1, %", "verdict should", "did so", "%", "95 % interval")
    return Table("Without the first turn", header, body)


def _reliability(records: Records) -> Table:
    body = [
        (
            str(number),
            f"{each['n']:,}",
            percent(each["mean_probability"]),
            percent(each["share"]),
            interval((each["low"], each["high"])),
        )
        for number, each in enumerate(records, start=1)
    ]
    return Table("Bins", ("bin", "rows", "mean P(contradiction), %", "contradictions, %", "95 % interval"), body)


def _points(records: Records, prior: float) -> Table:
    body = []
    for each in records:
        where = f"{100 * each['prior']:.3g} %{', as here' if each['prior'] == prior else ''}"
        cells = [where, f"{percent(each['wanted'], 0)} %", standing(each)]
        figures = [
            f"{percent(each['precision'])} ({interval((each['low'], each['high']))})",
            percent(each["recall"]),
            f"{each['threshold']:.3f}",
            f"{each['true_positives']:,} / {each['false_positives']:,}",
            f"{each['alarms_per_1000']:.1f}",
        ]
        body.append(cells + figures)
    header = (
        "contradictions", "precision wanted", "", "precision, % (95 %)", "recall, %", "threshold",
        "hits / false alarms", "alarms per 1,000",
    )  # fmt: skip
    return Table("Operating points", header, body)


def standing(point: Mapping[str, Any]) -> str:
    """Whether an operating point can be had, in words."""
    if not point["reached"]:
        return "not reachable; the best is"
    if point["low"] < point["wanted"] and point["false_positives"] < FEW:
        return "reached, on few false alarms"
    return "reached"


def _worst(analysis: Analysis) -> list[dict[str, Any]]:
    """Each kind with its sentence and those of the surest errors that are of it."""
    surest = analysis.errors[:WORST]
    first = next((kind for kind in analysis.kinds if kind["among_worst"]), None)
    return [
        {
            **kind,
            "open": kind is first,
            "rows": [each for each in surest if all(each[key] == kind[key] for key in ("label", "predicted"))],
        }
        for kind in analysis.kinds
    ]
