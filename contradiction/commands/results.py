"""Commands on results: artefact baselines, cards, the page of results, and weights to be shipped."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DATA, RESULTS, SHOWN_RESULTS, DataOption
from contradiction.errors import InputError
from contradiction.terminal import show


def baselines(
    data: DataOption = DATA,
    config: Annotated[
        list[str] | None, typer.Option(help="Configs to run. By default 2- and 4-class, both splits.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    embedder: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder: also a kernel machine on its embeddings.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also keep the results in this folder.")] = None,
) -> None:
    """Runs the baselines: TF-IDF of the reply alone, of the context without the reply, and of all.

    With --embedder also kernel ridge regression on embeddings by an encoder that is not fine-tuned.
    """
    from contradiction import results
    from contradiction.embeddings import Embedder
    from contradiction.evaluation import baselines as artefacts
    from contradiction.evaluation.on_split import model_name

    embed = Embedder(embedder) if embedder else None
    for each in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        found = []
        for result in artefacts.run(data, each, split):
            found.append(result)
            if out:
                results.keep(result, out / f"tfidf-{result['view']}.{each}.{split}.json")
        if embed:
            found.append(artefacts.kernel(data, each, model_name(embed.name), embed, split))
            if out:
                results.keep(found[-1], out / f"kernel-{model_name(embed.name)}.{each}.{split}.json")
        show(results.score_table(found, f"{each}, {split} split, n = {found[0]['metrics']['n']:,}"))


def card(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    results: Annotated[
        Path, typer.Option(help="Where the kept evaluations of it lie.", show_default=SHOWN_RESULTS)
    ] = RESULTS,
    data: Annotated[str | None, typer.Option(help="Its data repo, for figures on parts of the test split too.")] = None,
) -> None:
    """Writes a model's card from the record of its run and the kept evaluations of that run."""
    from contradiction import files
    from contradiction.reports import model_cards
    from contradiction.results import check_folder

    check_folder(results)
    found = model_cards.evaluations_of(model, results)
    files.write_text(model / "README.md", str(model_cards.model_card(model, found, data=data)))
    typer.echo(f"{model / 'README.md'}: written, with {len(found)} evaluations")


def export(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Copies a model folder with its weights in fp16, half the bytes, to be shipped."""
    from contradiction.classifiers.export import export as run

    size = sum(file.stat().st_size for file in run(model, out).rglob("*") if file.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB; next: cdconv evaluate {out}")


def results(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("models/README.md"),
    folder: Annotated[Path, typer.Option(help="The kept results.", show_default=SHOWN_RESULTS)] = RESULTS,
) -> None:
    """Writes the page of results from the kept results, and a picture of them beside it."""
    from contradiction import files
    from contradiction.reports import standings
    from contradiction.reports.results_page import results_page

    files.check_file(out)
    if not any(folder.glob("*.json")):
        raise InputError(f"{folder}: no such folder, or no results in it; `cdconv evaluate --json` writes them")
    if panels := standings.standings(folder):
        standings.draw(panels, out.with_name(standings.NAME))
    files.write_text(out, results_page(folder))
    typer.echo(f"{out}: written from {folder}")
