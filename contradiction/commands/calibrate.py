"""``cdconv calibrate``: the decision rule of a detector, chosen on the validation split."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DATA, DataOption
from contradiction.commands.terminal import progress, show
from contradiction.errors import InputError


def calibrate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    data: DataOption = DATA,
    config: Annotated[
        str | None, typer.Option(help="A config of the data. By default the one that the model was trained on.")
    ] = None,
    view: Annotated[
        str | None, typer.Option(help="The utterances that it reads, where it does not say; it will.")
    ] = None,
) -> None:
    """Chooses a detector's decision rule on the validation split and writes it beside the weights.

    `cdconv train` does this by itself; this is for checkpoints from elsewhere, whose labels have the names of ours.
    """
    from contradiction.data.splits import load_split, name_of, of_bot
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.io.tables import Table
    from contradiction.methods import calibration
    from contradiction.methods.checkpoint import check_view, save_view
    from contradiction.methods.loading import method_of
    from contradiction.training import leakage, record

    if not model.is_dir():
        raise InputError(
            f"{model}: no such folder; `hf download USER/NAME --local-dir FOLDER` makes one of a Hub model"
        )
    config = config or trained_config(model) or "4-class"
    rows = load_split(data, config, "validation")
    run = record.read(model)
    if why := leakage.why_seen(run, config, "validation", name_of(data)):
        raise InputError(f"{model} {why}: a rule chosen on these would be too sure; take rows that it has not seen")
    request = run.get("request")
    rows = of_bot(rows, record.recipe(request).data.bot if request else None)
    if view:
        check_view(model, view)
    with progress(f"calibrating {model.name}") as bar:
        task = bar.add_task("", total=len(rows))
        rule = calibration.calibrate(model, rows, view=view, on_batch=lambda done: bar.advance(task, done))
    if view:
        save_view(model, view)
    body = [("temperature", f"{rule.temperature:.2f}"), ("2-class from probability", f"{rule.cut:.2f}")]
    body += [(f"bias of {name}", f"{each:+.2f}") for name, each in rule.biases.items() if each]
    body += [(f"offset of {name}", f"{each:+.1f}") for name, each in rule.offsets.items() if each]
    show(Table(f"{model / method_of(model).MARKER}: chosen on {len(rows):,} validation rows", ("", "value"), body))
