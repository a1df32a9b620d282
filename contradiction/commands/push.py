"""The commands ``cdconv push ...``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.common import DATA, TrainedModelArgument, say

if TYPE_CHECKING:
    from contradiction.io.hub import Upload

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
    for key, value in result.not_set.items():
        say(f"this Hub sets no variables; set {key} to {value} in the Space's settings")
