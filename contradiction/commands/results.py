"""Commands on results: baselines, model cards, the page of results, and the export of weights."""

from pathlib import Path
from typing import Annotated, Any

import typer

from contradiction.commands.common import DATA, SHOWN_RESULTS, DataOption, show
from contradiction.errors import InputError
from contradiction.paths import RESULTS

app = typer.Typer(help="Writes the page of results from the saved results, or adds evaluations to them.")
FolderOption = Annotated[Path, typer.Option(help="The folder of saved results.", show_default=SHOWN_RESULTS)]


def baselines(
    data: DataOption = DATA,
    config: Annotated[
        list[str] | None,
        typer.Option(help="Configs to run. By default 2-class and 4-class, of the official and the grouped split."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    embedder: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder; adds kernel ridge regression on its embeddings.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also add the scores to the saved results in this folder.")] = None,
) -> None:
    """Runs the baselines: TF-IDF of the reply, of the context, and of both; and kernel ridge regression.

    Kernel ridge regression is fitted to n-grams and, with --embedder, also to embeddings by an encoder that is not
    fine-tuned.
    """
    from contradiction.evaluation import results
    from contradiction.evaluation.baselines import kernel_ridge, tfidf
    from contradiction.inference.embedding import Embedder
    from contradiction.reports.tables import score_table

    encoder = Embedder(embedder) if embedder else None
    for name in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        evaluations = [*tfidf(data, name, split), kernel_ridge(data, name, split=split)]
        if encoder:
            evaluations.append(kernel_ridge(data, name, encoder, split))
        if out:
            results.add(evaluations, out)
        show(score_table(evaluations, f"{name}, {split} split, n = {evaluations[0]['metrics']['n']:,}"))


def card(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    results: Annotated[Path, typer.Option(help="The folder of saved results.", show_default=SHOWN_RESULTS)] = RESULTS,
    data: Annotated[
        str | None, typer.Option(help="The data repo of the model, to add scores on parts of the test split.")
    ] = None,
) -> None:
    """Writes the card of a model from the record of its run and its saved evaluations."""
    from contradiction.evaluation.results import check_folder, evaluations_of
    from contradiction.io.files import write_text
    from contradiction.reports.model_card import model_card

    check_folder(results)
    evaluations = evaluations_of(model, results)
    write_text(model / "README.md", str(model_card(model, evaluations, data=data)))
    typer.echo(f"{model / 'README.md'}: written, with {len(evaluations)} evaluations")


def export(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    out: Annotated[Path | None, typer.Option(help="The folder to write. Only for --backend torch.")] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="torch: a copy in fp16. onnx, onnx-int8, openvino: a file beside the weights, for ONNX Runtime or "
            "OpenVINO."
        ),
    ] = "torch",
    data: Annotated[
        str | None,
        typer.Option(help="Not for torch: the data repo on whose validation split the file is compared with PyTorch."),
    ] = None,
) -> None:
    """Copies a model folder with its weights in fp16, or writes files for other backends beside the weights.

    The new file is compared with PyTorch, on the validation split of --data or on the embedded sample. A file that
    loses more than 0.5 points of macro-F1, or changes too many labels, is not kept.
    """
    if backend == "torch":
        from contradiction.training.export import export as run

        if out is None:
            raise InputError("--out is missing; it names the folder to write")
        if data is not None:
            raise InputError("--data is only for --backend onnx, onnx-int8 and openvino")
        size = sum(file.stat().st_size for file in run(model, out).rglob("*") if file.is_file())
        typer.echo(f"{out}: {size / 1e6:.1f} MB; next: cdconv evaluate {out}")
        return
    if out is not None:
        raise InputError(f"--out is only for --backend torch; {backend} writes its file beside the weights")
    from contradiction.training.export import export_onnx

    for compared in export_onnx(model, backend, *_rows_to_compare(model, data)):
        typer.echo(f"{compared.file}: {compared.file.stat().st_size / 1e6:.1f} MB; {compared}")


def _rows_to_compare(model: Path, data: str | None) -> tuple[list[Any], list[str] | None]:
    """The rows to compare an exported file on, and their labels; no labels for the embedded sample."""
    if data is None:
        import cdconv
        from contradiction.paths import SAMPLE

        return cdconv.read_rows(SAMPLE), None
    from contradiction.data.splits import load_split
    from contradiction.evaluation.evaluate import trained_config

    config = trained_config(model)
    if config is None:
        raise InputError(f"{model}: has no record that names its config; leave --data out")
    rows = load_split(data, config, "validation")
    return list(rows), [rows.features["label"].int2str(label) for label in rows["label"]]


@app.callback(invoke_without_command=True)
def results(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("models/README.md"),
    folder: FolderOption = RESULTS,
) -> None:
    """Writes the page of results and its plot from the saved results."""
    if context.invoked_subcommand:
        return
    from contradiction.evaluation.results import published
    from contradiction.io.files import check_file, write_text
    from contradiction.reports.plots import LEADERBOARD, draw_leaderboard, leaderboard
    from contradiction.reports.results_page import results_page

    check_file(out)
    if not (evaluations := published(folder)):
        raise InputError(f"{folder}: no such folder, or no results in it; `cdconv results add FILE` adds some")
    if panels := leaderboard(evaluations):
        draw_leaderboard(panels, out.with_name(LEADERBOARD))
    write_text(out, results_page(folder))
    typer.echo(f"{out}: written from {folder}")


@app.command("add")
def add(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files that `cdconv evaluate --json` or `cdconv contrast --json` wrote, or folders of them."
        ),
    ],
    folder: FolderOption = RESULTS,
    page: Annotated[
        str,
        typer.Option(
            help="The page that shows them: results, or reproduction (only the tables of `cdconv reproduce`)."
        ),
    ] = "results",
) -> None:
    """Adds evaluations to the saved results. They replace evaluations of the same run, config and split."""
    from contradiction.evaluation import contrast
    from contradiction.evaluation import results as saved

    if page not in saved.PAGES:
        raise InputError(f"page {page!r}; allowed are {', '.join(saved.PAGES)}")
    evaluations, counts = saved.read_files(files)
    if evaluations:
        saved.add(evaluations, folder, page=page)
    if counts:
        contrast.add(counts, folder)
    typer.echo(f"{folder}: {len(evaluations)} evaluations and {len(counts)} counts of contrast pairs added")
