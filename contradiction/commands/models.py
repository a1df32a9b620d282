"""The commands for finished models, evaluate, cascade, card and export, and ``cdconv push``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.common import (
    DATA,
    BackendOption,
    BotNameOption,
    ConfigOption,
    DataOption,
    DeviceOption,
    ExactPrecisionOption,
    RevisionOption,
    UserNameOption,
    ViewOption,
    WindowingOption,
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
from contradiction.io.files import check_file, check_new, check_writable, followed, write_json, write_text
from contradiction.io.hub import pinned
from contradiction.paths import RESULTS, SAMPLE

if TYPE_CHECKING:
    from contradiction.io.hub import Upload

BASELINES = "baselines"  # in place of a model
TrainedModelArgument = Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")]


def evaluate(
    model: Annotated[str, typer.Argument(help=f"A model folder or Hub id. Or '{BASELINES}', to score only these.")],
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="A data repo (folder or Hub id), a corpus (`cdconv corpora` lists them), or a file of labelled chats.",
            show_default="the data repo of --data",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The same as DATA. Or the local copy of the corpus that DATA names.")
    ] = None,
    config: ConfigOption = None,
    split: Annotated[str | None, typer.Option(help="The split.", show_default="test, or all chats of a file")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="The approximate number of rows. Rows of one chat stay together."),
    ] = None,
    baselines: Annotated[bool, typer.Option("--baselines", help="Also score baselines, such as n-grams.")] = False,
    user_name: UserNameOption = None,
    bot_name: BotNameOption = None,
    windowing: WindowingOption = None,
    view: ViewOption = None,
    revision: RevisionOption = None,
    precision: ExactPrecisionOption = "fp32",
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
    from contradiction.methods.loading import chosen_precision, find_model, load_classifier

    if json:
        check_file(json)
        check_writable(followed(json))
    detector = None
    if model != BASELINES:
        model = pinned(find_model(model), revision)
        precision = chosen_precision(model, precision, backend, device)
        classifier = load_classifier(model, view=view, device=device, precision=precision, backend=backend)
        check_rule(classifier)
        detector = ContradictionDetector(classifier)
        if windowing:
            detector = detector.with_settings(windowing=windowing)
    with counting(f"evaluating {Path(model).resolve().name}") as bar, asking(bar, yes):
        result = run(
            detector, of or data or DATA, config, split=split, limit=limit, copy=data if of else None,
            baselines=baselines, speakers=speakers_of(user_name, bot_name), on_start=bar.start, on_batch=bar.advance,
        )  # fmt: skip
    if why := result.get("leakage"):
        say(
            f"{result['name']} {why}: its scores are too high; they are saved with this note, and model cards and "
            "tables leave them out"
        )
    if json:
        write_json(json, result)
    show(*evaluation_tables(result))
    for note in evaluation_notes(result):
        typer.echo(note)


def cascade(
    detector: Annotated[Path, typer.Argument(help="The folder of a detector. It judges every reply.")],
    judge: Annotated[Path, typer.Argument(help="The folder of a judge. It judges the doubtful replies.")],
    out: Annotated[
        Path | None, typer.Option(help="The model folder to write. By default no folder is written.")
    ] = None,
    share: Annotated[
        float,
        typer.Option(min=0, max=1, help="With --out: the share of the validation rows that the judge is asked about."),
    ] = 0.2,
    data: DataOption = DATA,
    config: ConfigOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The number of validation rows, drawn at random. By default all.")
    ] = None,
    precision: ExactPrecisionOption = "fp32",
    device: DeviceOption = None,
    yes: YesOption = False,
) -> None:
    """Measures macro-F1 and cost of a detector that asks a judge about doubtful replies.

    The judge is asked once about every validation row, or about --limit of them. Its answers are saved.
    """
    from contradiction.data.splits import name_if_known
    from contradiction.evaluation import cascades
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.evaluation.tables import usage_table
    from contradiction.inference.base import INT8
    from contradiction.methods.llm_judge import total_usage
    from contradiction.methods.loading import chosen_precision, has_causal_part, load_part, load_rule
    from contradiction.runs import cascade

    if out:
        check_new(out, [detector, judge])
    causal = [part for part in (judge, detector) if has_causal_part(part)]
    if precision == INT8 and not causal:
        raise InputError(f"{detector}, {judge}: int8 is for causal detectors; leave the precision out")
    precision = chosen_precision((causal or [judge])[0], precision, "torch", device)
    detector_model, judge_model = (load_part(part, device=device, precision=precision) for part in (detector, judge))
    config = config or trained_config(detector) or detector_model.task
    rows = unseen_validation((detector, judge), data, config, "its scores on them would be too high")
    if limit and limit < len(rows):
        rows = rows.shuffle(seed=0).select(range(limit))
    with counting("measuring the cascade", len(rows)) as bar, asking(bar, yes):
        shares = sorted({*cascades.SHARES, share})
        steps = cascades.curve(detector_model, judge_model, rows, shares, on_batch=bar.advance)
    show(cascades.table(steps, len(rows)))
    if usage := total_usage((detector_model.usage(), judge_model.usage())):
        show(usage_table(usage, len(rows)))
    if out:
        chosen = steps[shares.index(share)]
        cascade(
            detector, judge, chosen, out, rows, curve=steps, config=config, data_name=name_if_known(data),
            precision=precision,
        )  # fmt: skip
        say_if_few(out, load_rule(out), len(rows))
        typer.echo(
            f"{out}: the judge is asked about {chosen.share:.0%} of replies in chats of two turns; "
            f"next: cdconv evaluate {out}{data_option(data)}"
        )


def card(
    model: TrainedModelArgument,
    results: Annotated[
        Path, typer.Option(help="The folder of saved results.", show_default="models/results")
    ] = RESULTS,
) -> None:
    """Writes the card of a model from the record of its run and its saved evaluations."""
    from contradiction.evaluation.model_card import model_card
    from contradiction.evaluation.results import check_folder, evaluations_of

    check_folder(results)
    evaluations = evaluations_of(model, results)
    write_text(model / "README.md", str(model_card(model, evaluations)))
    typer.echo(f"{model / 'README.md'}: written, with {len(evaluations)} evaluations")


def export(
    model: TrainedModelArgument,
    out: Annotated[Path | None, typer.Option(help="The folder to write. Only for --backend torch.")] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="torch: a copy in fp16. onnx, openvino: a file beside the weights, for ONNX Runtime or OpenVINO."
        ),
    ] = "torch",
    calibrate_head: Annotated[
        bool,
        typer.Option(
            "--calibrate-head",
            help="Only for torch: moves the calibration into the head, so that `pipeline` gives calibrated scores.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(help="Not for torch: the data repo on whose validation split the file is compared with PyTorch."),
    ] = None,
) -> None:
    """Copies a model folder with its weights in fp16, or writes files for other backends beside the weights.

    A causal detector is merged with its base, into a model that `pipeline` loads.

    The new file is compared with PyTorch, on the validation split of --data or on the embedded sample. A file that
    changes more than 2 % of the labels is not kept.
    """
    if backend != "torch":
        if out is not None or calibrate_head:
            raise InputError(f"--out and --calibrate-head are only for --backend torch; {backend} writes one file")
        from contradiction import cdconv
        from contradiction.data.splits import load_labelled_split
        from contradiction.evaluation.evaluate import trained_config
        from contradiction.export import export_onnx

        rows = cdconv.read_rows(SAMPLE)
        if data:
            rows = load_labelled_split(data, trained_config(model) or "4-class", "validation").to_list()
        for compared in export_onnx(model, backend, rows):
            typer.echo(f"{compared.file}: {compared.file.stat().st_size / 1e6:.1f} MB; {compared}")
        return
    if out is None or data is not None:
        raise InputError("--backend torch needs --out, the folder to write; --data is for the other backends")
    from contradiction.export import export as run

    files = run(model, out, calibrate_head=calibrate_head).rglob("*")
    size = sum(file.stat().st_size for file in files if file.is_file())
    note = f"; next: cdconv card {out}" if calibrate_head else ""  # the copied card describes the model as it was
    typer.echo(f"{out}: {size / 1e6:.1f} MB{note}")


app = typer.Typer(help="Publishes to the Hugging Face Hub.", no_args_is_help=True)

RepoOption = Annotated[str, typer.Option(help="The repo, user/name. It is created if it does not exist.")]
PrivateOption = Annotated[bool, typer.Option("--private", help="Make the repo private.")]
CodeUrlOption = Annotated[
    str | None, typer.Option(help="The address of the git repository of the code. The card links to it.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="List the files and send nothing.")]


@app.command("dataset")
def push_dataset(
    repo_id: RepoOption,
    folder: Annotated[Path, typer.Option(help="A data repo that `cdconv data build` wrote.")] = Path(DATA),
    any_data: Annotated[
        bool, typer.Option("--any-data", help="Publish even if the card says that the data is not CDConv.")
    ] = False,
    code_url: CodeUrlOption = None,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes a data set."""
    from contradiction import publishing

    _push(publishing.dataset(folder, repo_id, any_data=any_data), repo_id, code_url, private, dry_run)


@app.command("model")
def push_model(
    folder: TrainedModelArgument,
    repo_id: RepoOption,
    dataset: Annotated[
        str | None, typer.Option(help="The Hub id that the card links as its data, instead of the authors'.")
    ] = None,
    code_url: CodeUrlOption = None,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes a model with its card. The code on the card then loads the model from this repo."""
    from contradiction import publishing

    _push(publishing.model(folder, repo_id, dataset=dataset), repo_id, code_url, private, dry_run)


@app.command("metric")
def push_metric(
    repo_id: RepoOption,
    code_url: CodeUrlOption = None,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes the metric as a Space, which `evaluate.load("user/evaluate_metric")` reads."""
    from contradiction import publishing

    _push(publishing.metric(repo_id), repo_id, code_url, private, dry_run)


@app.command("space")
def push_space(
    repo_id: RepoOption,
    model: Annotated[str | None, typer.Option(help="The Hub id of the detector that the Space loads.")] = None,
    code_url: CodeUrlOption = None,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes the demo page as a Space."""
    from contradiction import publishing

    _push(publishing.space(repo_id, model), repo_id, code_url, private, dry_run)
    if model is None:
        say("no --model; the Space loads the detector that its variable CDCONV_MODEL names")


def _push(upload: "Upload", repo_id: str, code_url: str | None, private: bool, dry_run: bool) -> None:
    from contradiction.io.hub import check_repo_id, push
    from contradiction.publishing import add_code_url
    from contradiction.training import record

    if code_url:
        add_code_url(upload.card, code_url)
    if dry_run:
        check_repo_id(repo_id)
        sizes = upload.sizes()
        for name, size in sizes.items():
            typer.echo(f"{size:>14,}  {name}")
        typer.echo(f"{sum(sizes.values()):>14,}  {len(sizes)} files for the {upload.repo_type} {repo_id}; nothing sent")
        say("a push also deletes weights, JSON, Parquet and code of an earlier push")
        return
    result = push(upload, repo_id, private=private, code=record.commit())
    typer.echo(result.url if result.changed else f"{result.url}: nothing has changed")
    if result.deleted:
        say(f"deleted files of an earlier push: {', '.join(result.deleted)}")
