"""``cdconv calibrate``: the decision rule of a detector, chosen on the validation split."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DataOption
from contradiction.errors import InputError
from contradiction.terminal import progress, show


def calibrate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    data: DataOption = "cdconv",
    config: Annotated[
        str | None, typer.Option(help="A config of the data. By default the one that the model was trained on.")
    ] = None,
) -> None:
    """Chooses a detector's decision rule on the validation split and writes it beside the weights.

    `cdconv train` does this by itself; this is for checkpoints from elsewhere.
    """
    from contradiction import record, results
    from contradiction.classifiers import calibration
    from contradiction.classifiers.decision import FILE
    from contradiction.data.splits import load_split
    from contradiction.tables import Table
    from contradiction.training.sampling import of_bot

    if not model.is_dir():
        raise InputError(
            f"{model}: no such folder; `hf download USER/NAME --local-dir FOLDER` makes one of a Hub model"
        )
    rows = load_split(data, config or results.trained_on(model) or "4-class", "validation")
    asked = record.read(model).get("request", {})
    rows = of_bot(rows, asked.get("recipe", {}).get("bot"))
    with progress(f"calibrating {model.name}") as bar:
        task = bar.add_task("", total=len(rows))
        rule = calibration.calibrate(model, rows, on_batch=lambda done: bar.advance(task, done))
    body = [("temperature", f"{rule.temperature:.2f}"), ("2-class from probability", f"{rule.cut:.2f}")]
    body += [(f"bias of {name}", f"{each:+.2f}") for name, each in rule.biases.items() if each]
    body += [(f"offset of {name}", f"{each:+.1f}") for name, each in rule.offsets.items() if each]
    show(Table(f"{model / FILE}: chosen on {len(rows):,} validation rows", ("", "value"), body))
