"""The headline figures of an analysis, for a model card."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.io.tables import Table, interval, percent
from contradiction.reports.analysis.predictions import load
from contradiction.reports.analysis.scores import calibration_error, reliability
from contradiction.reports.analysis.slices import BY, slices

SHOWN = (BY["seen_context"], BY["bot"])


def headlines(result: Mapping[str, Any], data: str | Path) -> tuple[Table, float]:
    """Macro-F1 on what training has seen and has not, and on each bot's replies; and the calibration error.

    Args:
        result: a kept evaluation, with probabilities.
        data: the data repo that it was made on.
    """
    material = load(result, data)
    body = [
        (
            f"{each['by']}: {each['slice']}",
            f"{each['n']:,}",
            percent(each["macro_f1"]),
            interval((each["low"], each["high"])),
        )
        for each in slices(material)
        if each["by"] in SHOWN
    ]
    title = f"Parts of {result['config']}, {result['split']} split"
    error = calibration_error(
        reliability(material.are_contradictions(material.references), material.contradiction_probabilities)
    )
    return Table(title, ("rows", "n", "macro-F1", "95 % interval"), body), error
