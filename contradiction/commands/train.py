"""The commands that make detectors: train, adapt, calibrate and ensemble."""

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.common import (
    DATA,
    SHIPPED,
    BotNameOption,
    ConfigOption,
    DataOption,
    ExactPrecisionOption,
    ModelOption,
    UserNameOption,
    ViewOption,
    YesOption,
    asking,
    counting,
    data_option,
    say,
    say_if_few,
    show,
    speakers_of,
    unseen_validation,
)
from contradiction.errors import InputError


def train(
    recipe: Annotated[str, typer.Argument(help="A TOML file, the name of a recipe in models/recipes, or a run.json.")],
    backbone: Annotated[str | None, typer.Option(help="Folder or Hub id of an encoder; replaces the recipe's.")] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="Folder or Hub id of a teacher, instead of the recipe's; can be repeated.")
    ] = None,
    nli: Annotated[
        str | None, typer.Option(help="Data repo of NLI pairs to add to the training rows, instead of the recipe's.")
    ] = None,
    data: Annotated[
        str, typer.Option(help="The data repo: a folder or a Hub id. Or a file of your own labelled chats.")
    ] = DATA,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    seed: Annotated[int | None, typer.Option(help="The random seed, instead of the recipe's.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="<fp32|bf16|fp16>", help="Instead of the recipe's.")] = None,
    out: Annotated[Path | None, typer.Option(help="The model folder to write. By default runs/RECIPE-seedN.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an unfinished run. If the run is finished, train nothing.")
    ] = False,
    save_steps: Annotated[
        int | None, typer.Option(min=1, help="Save the training state after each N steps. By default after each epoch.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Send curves to tensorboard, trackio, wandb or another tracker of accelerate.")
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="On a GPU, make training exactly reproducible, but slower. On a CPU it is always reproducible with "
            "the same number of processes.",
        ),
    ] = False,
) -> None:
    """Trains a detector as a recipe says. The test split is not read.

    Of the epochs of an encoder, the one with the best macro-F1 on validation is saved, or the last one if the recipe
    has checkpoint = "last". Of a causal detector, the last step is saved.
    """
    from contradiction.data import labelled
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.labels import has_two_texts
    from contradiction.runs import train
    from contradiction.training.accelerators import processes

    if Path(data).is_file():
        built = labelled.build(data, speakers=speakers_of(user_name, bot_name))
        for reason, count in built.left_out.items():
            say(f"{data}: {count:,} {reason}")
        say(f"{data}: read as the data repo {built.folder}")
        show(built.sizes)
        data = str(built.folder)
    folder = train(
        recipe, data, out, resume=resume, save_steps=save_steps, track=track, deterministic=deterministic,
        backbone=backbone, teachers=teacher or None, nli=nli, seed=seed, precision=precision,
    )  # fmt: skip
    if processes().is_main_process:
        # Data sets of pairs, such as that of an NLI stage, may have no test split.
        split = " --split validation" if has_two_texts(trained_config(folder) or "") else ""
        typer.echo(f"{folder}: trained; next: cdconv evaluate {folder}{data_option(data)}{split}")


def ensemble(
    models: Annotated[list[Path], typer.Argument(help="At least two model folders that `cdconv train` wrote.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    data: DataOption = DATA,
    calibrate: Annotated[
        bool, typer.Option(help="Calibrate each detector first, so that overconfident ones do not dominate.")
    ] = True,
) -> None:
    """Combines detectors into one that averages their probabilities. A verdict takes the time of all of them."""
    from contradiction.evaluation.model_card import write_cards
    from contradiction.runs import ensemble

    write_cards(ensemble(models, out, data=data, calibrate=calibrate))
    following = f"evaluate {out} --split validation{data_option(data)}"
    typer.echo(f"{out}: an ensemble of {len(models)}; next: cdconv {following}")


def adapt(
    labels: Annotated[Path, typer.Argument(help="A file of your own labelled chats, as `cdconv review` exports it.")],
    model: ModelOption = SHIPPED,
    out: Annotated[Path | None, typer.Option(help="The model folder to write. By default runs/LABELS.")] = None,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    yes: YesOption = False,
) -> None:
    """Adapts the detector to your own labelled chats. Writes nothing if it is not better on held-out chats."""
    from contradiction.io.tables import Table, signed, signed_interval, with_interval
    from contradiction.runs import adapt

    with counting("adapting") as bar, asking(bar, yes):
        speakers = speakers_of(user_name, bot_name)
        done = adapt(labels, out, model=model, speakers=speakers, on_batch=bar.advance)
    found = done.calibration
    for reason, count in found.left_out.items():
        say(f"{labels}: {count:,} {reason}")
    before, after = (with_interval(one["macro_f1"], one["interval"]["macro_f1"]) for one in (done.before, done.after))
    change, bounds = done.difference["macro_f1_difference"], done.difference["interval"]["macro_f1_difference"]
    body = [
        ("chats", f"{found.chats:,}, of them {found.contradictions:,} contradictions"),
        ("not judged, left out", f"{found.unjudged:,}"),
        ("2-class macro-F1 before", before),
        ("2-class macro-F1 now, on chats held out", after),
        ("difference", f"{signed(change)} ({signed_interval(bounds)})"),
        ("threshold before, now", f"{found.before.threshold:.2f}, {found.rule.threshold:.2f}"),
    ]
    show(Table(f"{model}, fitted to {labels}", ("", "value, with 95 % interval"), body))
    if not done.folder:
        return typer.echo(f"{model}: stays, because the rule fitted to {labels} is not better on chats held out")
    typer.echo(f"{done.folder}: the adapted detector; next: cdconv detect CHATS --model {done.folder}")
    say_if_few(done.folder, found.rule, found.chats)


def calibrate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    data: DataOption = DATA,
    config: ConfigOption = None,
    view: ViewOption = None,
    precision: ExactPrecisionOption = "fp32",
    out: Annotated[
        Path | None, typer.Option(help="Copy the model to this new folder, and write the rule there.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Fits a detector's decision rule on validation, and saves it in the model folder.

    The new rule replaces the rule of MODEL. With --out, MODEL does not change, and a copy gets the new rule. `cdconv
    train` already fits a rule, so use this command for checkpoints of other tools whose labels have the same names.
    `cdconv adapt` fits a rule to your own labelled chats.
    """
    from contradiction.data.splits import of_bot
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.io.files import RECORD, check_new, check_writable, new_folder
    from contradiction.io.tables import Table
    from contradiction.methods import loading
    from contradiction.methods.checkpoint import check_view, save_view
    from contradiction.training import record

    if not model.is_dir():
        raise InputError(
            f"{model}: no such folder; `hf download USER/NAME --local-dir FOLDER` makes one of a Hub model"
        )
    if out:
        check_new(out, [model])
    else:
        check_writable(model / RECORD)
    config = config or trained_config(model) or "4-class"
    rows = unseen_validation((model,), data, config, "a rule chosen on them would be overconfident")
    request = record.read(model).get("request")
    rows = of_bot(rows, record.recipe(request).data.bot if request else None)
    if view:
        check_view(model, view)
    with counting(f"calibrating {model.name}", len(rows)) as bar, asking(bar, yes):
        precision = loading.chosen_precision(model, precision, "torch", None)
        rule = loading.fit_rule(model, rows, view=view, precision=precision, on_batch=bar.advance)
    with new_folder(out) if out else nullcontext(model) as folder:
        if out:
            shutil.copytree(model, folder, dirs_exist_ok=True)
        loading.save_rule(folder, rule)
        record.write_calibrated_on(folder, None)
        if view:
            save_view(folder, view)
    body = [("temperature", f"{rule.temperature:.2f}"), ("2-class from probability", f"{rule.threshold:.2f}")]
    body += [(f"bias of {name}", f"{value:+.2f}") for name, value in rule.biases.items() if value]
    place = (out or model) / loading.method_of(model).MARKER
    show(Table(f"{place}: chosen on {len(rows):,} validation rows", ("", "value"), body))
    say_if_few(out or model, rule, len(rows))
