"""The commands that make detectors: train, ensemble, cascade and calibrate."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction.commands.common import (
    DATA,
    SHIPPED,
    BotNameOption,
    ConfigOption,
    DataOption,
    DataOrLabelsOption,
    DeviceOption,
    ModelOption,
    SaveStepsOption,
    UserNameOption,
    YesOption,
    asking,
    counting,
    data_repo,
    say,
    show,
    speakers_of,
)
from contradiction.errors import InputError
from contradiction.labels import has_two_texts

if TYPE_CHECKING:
    from datasets import Dataset


def train(
    recipe: Annotated[str, typer.Argument(help="A TOML file, the name of one in models/recipes, or a run.json.")],
    backbone: Annotated[str | None, typer.Option(help="Folder or Hub id of an encoder, not the recipe's.")] = None,
    base_model: Annotated[
        str | None, typer.Option(help="Hub id of the model that a local backbone was made from, for the card.")
    ] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="Folder or Hub id of a teacher, instead of the recipe's; can be repeated.")
    ] = None,
    nli: Annotated[
        str | None, typer.Option(help="Data repo of NLI pairs to add to the training rows, instead of the recipe's.")
    ] = None,
    data: DataOrLabelsOption = DATA,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    seed: Annotated[int | None, typer.Option(help="The random seed, instead of the recipe's.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="<fp32|bf16|fp16>", help="Instead of the recipe's.")] = None,
    out: Annotated[Path | None, typer.Option(help="The model folder to write. By default runs/RECIPE-seedN.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an unfinished run. If the run is finished, train nothing.")
    ] = False,
    save_steps: SaveStepsOption = None,
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
    """Trains a detector and saves the checkpoint with the best validation score. The test split is not read."""
    from contradiction.runs import train

    data = data_repo(data, speakers_of(user_name, bot_name))
    folder = train(
        recipe, data, out, resume=resume, save_steps=save_steps, track=track, deterministic=deterministic,
        backbone=backbone, base_model=base_model, teachers=teacher or None, nli=nli, seed=seed, precision=precision,
    )  # fmt: skip
    say_what_follows(folder, data)


def say_what_follows(folder: Path, data: str) -> None:
    """Prints that a detector is trained, and the next command; only one process prints."""
    from contradiction.training import record
    from contradiction.training.accelerators import processes

    if not processes().is_main_process:
        return
    of_data = record.recipe(record.read(folder)["request"]).data
    following = f"evaluate {folder}{_data_option(data)}"
    if of_data.config == of_data.view == "nli":
        following = f"train RECIPE --backbone {folder}"
    elif has_two_texts(of_data.config):
        following = f"evaluate {folder} NAME"
    typer.echo(f"{folder}: trained; next: cdconv {following}")


def _data_option(data: str) -> str:
    """The ``--data`` option for the next command, after a space; empty for the default data repo."""
    return "" if data == DATA else f" --data {data}"


def ensemble(
    models: Annotated[list[Path], typer.Argument(help="At least two model folders that `cdconv train` wrote.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    data: DataOption = DATA,
    calibrate: Annotated[
        bool, typer.Option(help="Calibrate each detector first, so that overconfident ones do not dominate.")
    ] = True,
) -> None:
    """Combines detectors into one that averages their probabilities. It needs the time of all of them together."""
    from contradiction.evaluation.model_card import write_cards
    from contradiction.runs import ensemble

    write_cards(ensemble(models, out, data=data, calibrate=calibrate))
    following = f"evaluate {out} --split validation{_data_option(data)}"
    typer.echo(f"{out}: an ensemble of {len(models)}; next: cdconv {following}")


def cascade(
    detector: Annotated[Path, typer.Argument(help="The folder of a detector, which judges every reply.")],
    judge: Annotated[Path, typer.Argument(help="The folder of a judge, which is asked where the detector is unsure.")],
    out: Annotated[
        Path | None, typer.Option(help="The model folder to write. By default no folder is written.")
    ] = None,
    share: Annotated[
        float,
        typer.Option(min=0, max=1, help="With --out: the share of the validation rows that the judge is asked about."),
    ] = 0.2,
    data: DataOption = DATA,
    config: Annotated[
        str | None, typer.Option(help="A config of the data. By default the one that the detector was trained on.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The number of validation rows, drawn at random. By default all.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the curve to this file.")] = None,
    device: DeviceOption = None,
    yes: YesOption = False,
) -> None:
    """Measures macro-F1 and cost of a detector that asks a judge about the replies for which it is unsure.

    The judge is asked once about every validation row, or about --limit of them. Its answers are saved.
    """
    from contradiction.evaluation import cascades
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.evaluation.tables import usage_table
    from contradiction.io.files import check_file, check_new, write_json
    from contradiction.methods.loading import load_classifier
    from contradiction.runs import cascade

    if json:
        check_file(json)
    if out:
        check_new(out, [detector, judge])
    detector_model, judge_model = load_classifier(detector, device=device), load_classifier(judge, device=device)
    config = config or trained_config(detector) or detector_model.task
    rows = _unseen_validation((detector, judge), data, config, "its scores on them would be too high")
    if limit and limit < len(rows):
        rows = rows.shuffle(seed=0).select(range(limit))
    with counting("measuring the cascade", len(rows)) as bar, asking(bar, yes):
        shares = sorted({*cascades.SHARES, share})
        steps = cascades.curve(detector_model, judge_model, rows, shares, on_batch=bar.advance)
    show(cascades.table(steps, len(rows)))
    if usage := judge_model.usage():
        show(usage_table(usage, len(rows)))
    if json:
        write_json(json, {"detector": str(detector), "judge": str(judge), "rows": len(rows), "usage": usage,
                          "steps": [asdict(step) for step in steps]})  # fmt: skip
    if out:
        chosen = steps[shares.index(share)]
        cascade(detector, judge, chosen.low, chosen.high, out, rows)
        # Its record does not say which config is its own.
        option = "" if config == detector_model.task else f" --config {config}"
        typer.echo(
            f"{out}: the judge is asked about {share:.0%} of replies in chats of two turns; next: "
            f"cdconv evaluate {out}{option}{_data_option(data)}"
        )


def adapt(
    labels: Annotated[Path, typer.Argument(help="A file of your own labelled chats, as `cdconv review` exports it.")],
    model: ModelOption = SHIPPED,
    out: Annotated[Path | None, typer.Option(help="The model folder to write. By default runs/LABELS.")] = None,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    yes: YesOption = False,
) -> None:
    """Adapts the detector to your own labelled chats, if that makes it better on chats that were held out."""
    from contradiction.decision import MIN_FOR_CURVE
    from contradiction.io.tables import Table, percent
    from contradiction.runs import adapt

    with counting("adapting") as bar, asking(bar, yes):
        speakers = speakers_of(user_name, bot_name)
        done = adapt(labels, out, model=model, speakers=speakers, on_batch=bar.advance)

    def interval(figures: Mapping[str, Any], key: str) -> str:
        return f"{percent(figures[key])} ({' to '.join(map(percent, figures['interval'][key]))})"

    found = done.calibration
    body = [
        ("chats", f"{found.chats:,}, of them {found.contradictions:,} contradictions"),
        ("not judged, left out", f"{found.unjudged:,}"),
        ("2-class macro-F1 before", interval(done.before, "macro_f1")),
        ("2-class macro-F1 now, on chats held out", interval(done.after, "macro_f1")),
        ("difference", interval(done.difference, "macro_f1_difference")),
        ("threshold before, now", f"{found.before.threshold:.2f}, {found.rule.threshold:.2f}"),
    ]
    show(Table(f"{model}, fitted to {labels}", ("", "value, with 95 % interval"), body))
    if done.folder:
        typer.echo(f"{done.folder}: the adapted detector; next: cdconv detect CHATS --model {done.folder}")
    else:
        typer.echo(f"{model}: stays, because the rule fitted to {labels} is not better on chats held out")
    if done.folder and not found.rule.curve:
        say(
            f"{done.folder}: a threshold such as precision>=0.7 needs at least {MIN_FOR_CURVE} contradictions and "
            f"{MIN_FOR_CURVE} other chats; {labels} has {found.contradictions} and "
            f"{found.chats - found.contradictions}, so set a number"
        )


def calibrate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    data: DataOption = DATA,
    config: ConfigOption = None,
    view: Annotated[
        str | None,
        typer.Option(
            help="The view: the utterances that are read, if the model does not state it. It is saved with the model."
        ),
    ] = None,
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
    from contradiction.io.files import check_new
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
    config = config or trained_config(model) or "4-class"
    rows = _unseen_validation((model,), data, config, "a rule chosen on them would be overconfident")
    request = record.read(model).get("request")
    rows = of_bot(rows, record.recipe(request).data.bot if request else None)
    if view:
        check_view(model, view)
    with _calibrated(model, out) as folder:
        with counting(f"calibrating {model.name}", len(rows)) as bar, asking(bar, yes):
            rule = loading.calibrate(folder, rows, view=view, on_batch=bar.advance)
        record.write_calibrated_on(folder, None)
        if view:
            save_view(folder, view)
    body = [("temperature", f"{rule.temperature:.2f}"), ("2-class from probability", f"{rule.threshold:.2f}")]
    body += [(f"bias of {name}", f"{value:+.2f}") for name, value in rule.biases.items() if value]
    place = (out or model) / loading.method_of(model).MARKER
    show(Table(f"{place}: chosen on {len(rows):,} validation rows", ("", "value"), body))


def _unseen_validation(models: Iterable[Path], data: str, config: str, otherwise: str) -> "Dataset":
    """The validation split; raises InputError, with the consequence in words, if a model was trained on its rows."""
    from contradiction.data.splits import load_labelled_split, name_if_known
    from contradiction.training import leakage, record

    rows = load_labelled_split(data, config, "validation")
    for model in models:
        if why := leakage.describe_leakage(record.of_model(model), config, "validation", name_if_known(data)):
            raise InputError(f"{model} {why}: {otherwise}; choose data that it was not trained on")
    return rows


@contextmanager
def _calibrated(model: Path, out: Path | None) -> Iterator[Path]:
    """The folder to calibrate: the model, or a copy that gets the name ``out`` if the block ends without an error."""
    from contradiction.io.files import new_folder

    if out is None:
        yield model
        return
    with new_folder(out) as copy:
        shutil.copytree(model, copy, dirs_exist_ok=True)
        try:
            yield copy
        except InputError as error:
            raise InputError(str(error).replace(str(copy), str(model))) from error
