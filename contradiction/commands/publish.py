"""The commands that prepare a model folder for others and publish: card, export, and ``cdconv push``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction.commands.common import DATA, ResultsOption, TrainedModelArgument, say
from contradiction.errors import InputError
from contradiction.paths import RESULTS

if TYPE_CHECKING:
    from contradiction.io.hub import Upload


def card(model: TrainedModelArgument, results: ResultsOption = RESULTS) -> None:
    """Writes the card of a model from the record of its run and its saved evaluations."""
    from contradiction.evaluation.model_card import model_card
    from contradiction.evaluation.results import check_folder, evaluations_of
    from contradiction.io.files import write_text

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
        from contradiction.export import export_onnx

        for compared in export_onnx(model, backend, _rows_to_compare(model, data)):
            typer.echo(f"{compared.file}: {compared.file.stat().st_size / 1e6:.1f} MB; {compared}")
        return
    if out is None or data is not None:
        raise InputError("--backend torch needs --out, the folder to write; --data is for the other backends")
    from contradiction.export import export as run
    from contradiction.methods.loading import method_of

    files = run(model, out, calibrate_head=calibrate_head).rglob("*")
    size = sum(file.stat().st_size for file in files if file.is_file())
    card = f", then cdconv card {out}" if calibrate_head else ""  # the copied card describes the model as it was
    merged = method_of(model).MARKER != method_of(out).MARKER
    following = "`pipeline` of transformers loads it" if merged else f"next: cdconv evaluate {out}{card}"
    typer.echo(f"{out}: {size / 1e6:.1f} MB; {following}")


def _rows_to_compare(model: Path, data: str | None) -> list[Any]:
    """The rows to compare an exported file on: those of the embedded sample if no data is named."""
    if data is None:
        from contradiction import cdconv
        from contradiction.paths import SAMPLE

        return cdconv.read_rows(SAMPLE)
    from contradiction.data.splits import load_labelled_split
    from contradiction.evaluation.evaluate import trained_config

    config = trained_config(model)
    if config is None:
        raise InputError(f"{model}: has no record that names its config; leave --data out")
    return load_labelled_split(data, config, "validation").to_list()


app = typer.Typer(help="Publishes to the Hugging Face Hub.", no_args_is_help=True)

RepoOption = Annotated[str, typer.Option(help="The repo, user/name. It is created if it does not exist.")]
PrivateOption = Annotated[bool, typer.Option("--private", help="Make the repo private.")]
CodeUrlOption = Annotated[
    str | None, typer.Option(help="The address of the git repository of the code, for the card to link.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="List the files and send nothing.")]


@app.command("dataset")
def push_dataset(
    repo_id: RepoOption,
    folder: Annotated[Path, typer.Option(help="A data repo that `cdconv data build` wrote.")] = Path(DATA),
    any_data: Annotated[
        bool, typer.Option("--any-data", help="Also publish data whose card says that it is not CDConv.")
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
    dataset: Annotated[str | None, typer.Option(help="The Hub id of the training data, for the card to link.")] = None,
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

    _push(publishing.space(model, repo_id), repo_id, code_url, private, dry_run)
    if model is None:
        say("no --model; the Space loads the detector that its variable CDCONV_MODEL names")


def _push(upload: "Upload", repo_id: str, code_url: str | None, private: bool, dry_run: bool) -> None:
    from contradiction.io.hub import check_repo_id, push
    from contradiction.publishing import with_code_url
    from contradiction.training import record

    if code_url:
        upload = with_code_url(upload, code_url)
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
