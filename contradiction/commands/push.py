"""The commands ``cdconv push ...``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.options import DATA

if TYPE_CHECKING:
    from contradiction.publishing import Upload

app = typer.Typer(help="Publishes on the Hugging Face Hub, each in one commit.", no_args_is_help=True)

RepoOption = Annotated[str, typer.Option(help="The repo to publish in, user/name; made if it is not there.")]
PrivateOption = Annotated[bool, typer.Option("--private", help="So that nobody else sees it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="List what would be sent, and send nothing.")]


@app.command("dataset")
def push_dataset(
    repo_id: RepoOption,
    folder: Annotated[Path, typer.Option(help="A data repo that `cdconv data build` wrote.")] = Path(DATA),
    any_data: Annotated[bool, typer.Option("--any-data", help="Also what its card says is not CDConv.")] = False,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes a data repo."""
    from contradiction import publishing

    _push(publishing.data_set(folder, any_data=any_data), repo_id, private, dry_run)


@app.command("model")
def push_model(
    folder: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    repo_id: RepoOption,
    dataset: Annotated[str | None, typer.Option(help="The Hub id of its data, for the card to link.")] = None,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes a model with its card, whose code then names the repo."""
    from contradiction import publishing

    _push(publishing.model(folder, repo_id, dataset=dataset), repo_id, private, dry_run)


@app.command("metric")
def push_metric(repo_id: RepoOption, private: PrivateOption = False, dry_run: DryRunOption = False) -> None:
    """Publishes the metric as the Space that `evaluate.load("user/evaluate_metric")` reads."""
    from contradiction import publishing

    _push(publishing.metric(repo_id), repo_id, private, dry_run)


@app.command("space")
def push_space(
    repo_id: RepoOption,
    model: Annotated[str | None, typer.Option(help="The Hub id of its detector.")] = None,
    private: PrivateOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Publishes the page as a Space."""
    from contradiction import publishing

    _push(publishing.space(model), repo_id, private, dry_run)
    if model is None:
        typer.echo("cdconv: no --model, so the Space shows the detector that its variable CDCONV_MODEL names", err=True)


def _push(upload: "Upload", repo_id: str, private: bool, dry_run: bool) -> None:
    from contradiction import publishing

    if dry_run:
        publishing.check_repo_id(repo_id)
        sizes = upload.sizes()
        for name, size in sizes.items():
            typer.echo(f"{size:>14,}  {name}")
        typer.echo(f"{sum(sizes.values()):>14,}  in {len(sizes)} files to the {upload.repo_type} {repo_id}; none sent")
        typer.echo(
            "cdconv: a push also deletes weights, JSON, Parquet and code that an earlier one left there", err=True
        )
        return
    published = publishing.push(upload, repo_id, private=private)
    typer.echo(published.url if published.changed else f"{published.url}: nothing has changed")
    if published.deleted:
        typer.echo(f"cdconv: deleted there, left by an earlier push: {', '.join(published.deleted)}", err=True)
    for key, value in published.not_set.items():
        typer.echo(f"cdconv: this Hub sets no variables; set {key} to {value} in the settings of the Space", err=True)
