"""Commands on results: artefact baselines, cards, the page of results, and weights to be shipped."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.options import DATA, RESULTS, SHOWN_RESULTS, DataOption
from contradiction.commands.terminal import show
from contradiction.errors import InputError


def baselines(
    data: DataOption = DATA,
    config: Annotated[
        list[str] | None, typer.Option(help="Configs to run. By default 2- and 4-class, both splits.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    embedder: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder: kernel ridge regression on its embeddings too.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also keep the results in this folder.")] = None,
) -> None:
    """Runs the baselines: TF-IDF of the reply alone, of the context without it, and of all; kernel ridge regression.

    That is fitted to n-grams alone and, with --embedder, to embeddings by an encoder that is not fine-tuned too.
    """
    from contradiction.evaluation import baselines as artefacts
    from contradiction.evaluation import kernel_baseline, results
    from contradiction.inference.embedding import Embedder

    encoder = Embedder(embedder) if embedder else None
    for each in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        found = {f"tfidf-{result['view']}": result for result in artefacts.run(data, each, split)}
        found["kernel"] = kernel_baseline.run(data, each, split=split)
        if encoder:
            found[f"kernel-{encoder.short_name}"] = kernel_baseline.run(data, each, encoder, split)
        if out:
            for name, result in found.items():
                results.keep(result, out / f"{name}.{each}.{split}.json")
        first, *_ = found.values()
        show(results.score_table([*found.values()], f"{each}, {split} split, n = {first['metrics']['n']:,}"))


def card(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    results: Annotated[
        Path, typer.Option(help="Where the kept evaluations of it lie.", show_default=SHOWN_RESULTS)
    ] = RESULTS,
    data: Annotated[str | None, typer.Option(help="Its data repo, for figures on parts of the test split too.")] = None,
) -> None:
    """Writes a model's card from the record of its run and the kept evaluations of that run."""
    from contradiction.evaluation.results import check_folder
    from contradiction.io import files
    from contradiction.reports import model_cards

    check_folder(results)
    found = model_cards.evaluations_of(model, results)
    files.write_text(model / "README.md", str(model_cards.model_card(model, found, data=data)))
    typer.echo(f"{model / 'README.md'}: written, with {len(found)} evaluations")


def export(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Copies a model folder with its weights in fp16, half the bytes, to be shipped."""
    from contradiction.training.export import export as run

    size = sum(file.stat().st_size for file in run(model, out).rglob("*") if file.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB; next: cdconv evaluate {out}")


def results(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("models/README.md"),
    folder: Annotated[Path, typer.Option(help="The kept results.", show_default=SHOWN_RESULTS)] = RESULTS,
) -> None:
    """Writes the page of results from the kept results, and a picture of them beside it."""
    from contradiction.io import files
    from contradiction.reports import standings
    from contradiction.reports.results_page import results_page

    files.check_file(out)
    if not any(folder.glob("*.json")):
        raise InputError(f"{folder}: no such folder, or no results in it; `cdconv evaluate --json` writes them")
    if panels := standings.standings(folder):
        standings.draw(panels, out.with_name(standings.NAME))
    files.write_text(out, results_page(folder))
    typer.echo(f"{out}: written from {folder}")
