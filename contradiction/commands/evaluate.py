"""The command ``cdconv evaluate``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from contradiction.commands.common import (
    DATA,
    BackendOption,
    BotNameOption,
    ConfigOption,
    DeviceOption,
    RevisionOption,
    UserNameOption,
    WindowingOption,
    YesOption,
    asking,
    counting,
    say,
    show,
    speakers_of,
)
from contradiction.io.files import check_file, write_json

BASELINES = "baselines"  # in place of a model
ViewOption = Annotated[
    str | None, typer.Option(help="The utterances to read (the view), if the model does not name them.")
]


def evaluate(
    model: Annotated[str, typer.Argument(help=f"A model folder or Hub id; or '{BASELINES}', for these alone.")],
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="A data repo (folder or Hub id), a corpus (`cdconv corpora` lists them), or a file of labelled chats.",
            show_default="the data repo of --data",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The same as DATA; or the local copy of the corpus that DATA names.")
    ] = None,
    config: ConfigOption = None,
    split: Annotated[str | None, typer.Option(help="The split.", show_default="test; all chats of a file")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="About how many rows are judged. Rows of one source stay together.")
    ] = None,
    baselines: Annotated[bool, typer.Option("--baselines", help="Also score baselines without an encoder.")] = False,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    windowing: WindowingOption = None,
    view: ViewOption = None,
    revision: RevisionOption = None,
    precision: Annotated[
        str, typer.Option(metavar="<auto|fp32|bf16|fp16>", help="auto: the fastest on this CPU; fp32 is exact.")
    ] = "fp32",
    backend: BackendOption = "torch",
    device: DeviceOption = None,
    json: Annotated[Path | None, typer.Option(help="Also write metrics and predictions to this file.")] = None,
    yes: YesOption = False,
) -> None:
    """Evaluates a detector on a data set, a corpus, or your own labelled chats, with 95 % intervals.

    The corpora crossed, crossed-long, crossed-en and contrast are part of the package. They ask whether a detector
    compares a reply with the earlier messages.
    """
    from contradiction.detector import ContradictionDetector, check_rule
    from contradiction.evaluation.evaluate import evaluate as run
    from contradiction.evaluation.tables import evaluation_notes, evaluation_tables
    from contradiction.inference import chosen_precision
    from contradiction.methods.loading import load_classifier

    if json:
        check_file(json)
    detector = None
    if model != BASELINES:
        classifier = load_classifier(
            model, view=view, device=device, revision=revision, backend=backend,
            precision=chosen_precision(precision, backend, device),
        )  # fmt: skip
        check_rule(classifier)
        detector = ContradictionDetector(classifier)
        if windowing:
            detector = detector.with_settings(windowing=windowing)
    with counting(f"evaluating {Path(model).resolve().name}") as bar, asking(bar, yes):
        result = run(
            detector, of or data or DATA, config, split=split, limit=limit, copy=data if of else None,
            baselines=baselines, speakers=speakers_of(user_name, bot_name), on_start=bar.start, on_batch=bar.advance,
        )  # fmt: skip
    _warn_of_leakage(result)
    if json:
        write_json(json, result)
    show(*evaluation_tables(result))
    for note in evaluation_notes(result):
        typer.echo(note)


def _warn_of_leakage(result: Mapping[str, Any]) -> None:
    """Writes one line to stderr if the detector was trained on the evaluated rows."""
    if why := result.get("leakage"):
        say(
            f"{result['name']} {why}: its scores are too high; they are saved with this note, and model cards and "
            "tables leave them out"
        )
