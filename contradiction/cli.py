"""The command line: parses, calls, prints. Heavy imports stand in the commands, so that ``--help`` answers at once."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from contradiction.cli_analyze import analyze
from contradiction.cli_backbone import app as backbone_app
from contradiction.cli_calibrate import calibrate
from contradiction.cli_detect import detect
from contradiction.cli_evaluate import evaluate
from contradiction.cli_options import DEMO, ModelOption, demand_model
from contradiction.cli_push import app as push_app
from contradiction.cli_reproduce import reproduce
from contradiction.errors import InputError
from contradiction.terminal import show

if TYPE_CHECKING:
    from contradiction.recipes import Recipe
    from contradiction.sources import Source

app = typer.Typer(
    help="Contradictions in Chinese conversations: data set, training, evaluation, detection.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(help="Builds the data repo and shows what is in it.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(push_app, name="push")
app.add_typer(backbone_app, name="backbone")
app.command()(analyze)
app.command()(calibrate)
app.command()(detect)
app.command()(evaluate)
app.command()(reproduce)

INTERRUPTED = 130

SourceOption = Annotated[
    str | None,
    typer.Option(help="A raw file of CDConv, or the word sample. By default $CDCONV_FILE, else the pinned URL."),
]
DataOption = Annotated[str, typer.Option(help="The data repo: a folder or a Hub id.")]


def main() -> None:
    """The entry point: an error that the user can mend is one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # what Typer makes of Ctrl-C
            typer.echo("cdconv: interrupted", err=True)
        sys.exit(code)
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help has been shown, and is all there is to say
            sys.exit(2)
        _fail(str(error))
    except _mendable() as error:
        _fail(str(error))


def _mendable() -> tuple[type[Exception], ...]:
    errors: list[type[Exception]] = [InputError, OSError]
    # Looked up only if loaded: an error of cdconv.py can only have been raised after its import.
    if module := sys.modules.get("cdconv"):
        errors += [module.InvalidSourceError, module.NonMatchingChecksumError]
    return tuple(errors)


def _fail(message: str) -> NoReturn:
    typer.echo(f"cdconv: {' '.join(message.split())}", err=True)
    sys.exit(2)


def _find(source: str | None, fall_back: bool = False) -> "Source":
    from contradiction import sources

    try:
        found = sources.find(source)
    except InputError as error:
        if not fall_back or os.environ.get("CDCONV_FILE"):  # who names a file does not want another
            raise
        typer.echo(f"cdconv: {error}", err=True)
        found = sources.find("sample")
    if found.kind == "sample":
        typer.secho(
            "NOTE: this is the embedded sample, written for this project, and not CDConv; its figures mean nothing "
            "beyond showing the steps.", fg="yellow", bold=True, err=True,
        )  # fmt: skip
    elif found.kind == "custom":
        typer.secho(
            f"NOTE: {found.path} is not the released file; official figures do not apply.", fg="yellow", err=True
        )
    return found


@data_app.command("build")
def data_build(
    source: SourceOption = None,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("cdconv"),
    checklists: Annotated[
        bool, typer.Option("--checklists", help="Also test rows with turns added, and taken away.")
    ] = False,
) -> None:
    """Builds the data repo that `load_dataset("cdconv", "4-class")` reads."""
    from contradiction import datarepo

    found = _find(source)
    made = "six configs and four checklists" if checklists else "six configs"
    typer.echo(f"{datarepo.build(found, out, with_checklists=checklists)}: {made} from {found.path}")


@data_app.command("nli")
def data_nli(
    train: Annotated[
        list[str],
        typer.Option(help="Corpora of the training split: OCNLI, CMNLI or XNLI files, or ID:CONFIG on the Hub."),
    ],
    validation: Annotated[list[str], typer.Option(help="Corpora of the validation split.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("nli"),
) -> None:
    """Builds a data repo of Chinese NLI corpora, for the NLI stage before CDConv.

    From the Hub: clue/clue:ocnli, clue/clue:cmnli, facebook/xnli:zh; by default its split of the same name, another as
    ID:CONFIG:SPLIT.
    """
    from contradiction import nli

    rows = nli.build(train, validation, out)
    typer.echo(
        f"{out}: {rows['train']:,} training and {rows['validation']:,} validation pairs; {rows['dropped']:,} training "
        "pairs left out because they stand twice or in the validation split"
    )


@data_app.command("stats")
def data_stats(source: SourceOption = None) -> None:
    """Prints the paper's Table 3, the sizes of all configs and splits, and how far the splits overlap."""
    import cdconv
    from contradiction import statistics

    rows = cdconv.read_rows(_find(source).path)
    splits = {"": cdconv.official_split(rows), "-grouped": cdconv.grouped_split(rows)}
    show(*statistics.table3(rows), statistics.split_sizes(splits), statistics.leaks(splits))


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help="A TOML file, or the name of one in models/recipes.")],
    backbone: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder, instead of the recipe's.")
    ] = None,
    data: DataOption = "cdconv",
    seed: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16, instead of the recipe's.")] = None,
    out: Annotated[Path | None, typer.Option(help="The model folder to write. By default runs/RECIPE-seedN.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished run; leave a finished one.")] = False,
    save_steps: Annotated[
        int | None, typer.Option(min=1, help="Also keep the state inside an epoch, every so many steps, for --resume.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Send curves to tensorboard, trackio, wandb or another of accelerate's trackers.")
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic",
            help="On a GPU, the same bytes from run to run, but slower. A CPU gives them anyway; another number of "
            "processes never does.",
        ),
    ] = False,
) -> None:
    """Trains a detector; the checkpoint kept is the best on validation, the test split is not read."""
    from contradiction.recipes import Recipe

    chosen = Recipe.load(recipe).with_changes(backbone=backbone, seed=seed, precision=precision)
    out = out or Path("runs") / f"{chosen.name}-seed{chosen.seed}"
    _train(chosen, data, out, resume=resume, save_steps=save_steps, track=track, deterministic=deterministic)


def _train(recipe: "Recipe", data: str, out: Path, **options: Any) -> None:
    from accelerate import PartialState

    from contradiction import stages, training
    from contradiction.views import HIERARCHICAL

    run = stages.train if recipe.view == HIERARCHICAL else training.train
    run(recipe, data=data, out=out, **options)
    if not PartialState().is_main_process:  # one of several is enough to say so
        return
    if recipe.view != "nli":
        where = "" if data == "cdconv" else f" --data {data}"
        typer.echo(f"{out}: trained; next: cdconv evaluate {out}{where}")
    else:
        typer.echo(f"{out}: trained; next: cdconv train RECIPE --backbone {out}")


@app.command()
def baselines(
    data: DataOption = "cdconv",
    config: Annotated[
        list[str] | None, typer.Option(help="Configs to run. By default 2- and 4-class, both splits.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    out: Annotated[Path | None, typer.Option(help="Also keep the results in this folder.")] = None,
) -> None:
    """Runs the artefact baselines: TF-IDF of the reply alone, of the context without the reply, and of all."""
    from contradiction import baselines as artefacts
    from contradiction import results

    for each in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        found = []
        for result in artefacts.run(data, each, split):
            found.append(result)
            if out:
                results.keep(result, out / f"tfidf-{result['view']}.{each}.{split}.json")
        show(results.score_table(found, f"{each}, {split} split, n = {found[0]['metrics']['n']:,}"))


@app.command()
def card(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    results: Annotated[Path, typer.Option(help="Where the kept evaluations of it lie.")] = Path("models/results"),
) -> None:
    """Writes a model's card from the record of its run and the kept evaluations of that run."""
    from contradiction import files, model_cards

    found = model_cards.evaluations_of(model, results)
    files.write_text(model / "README.md", str(model_cards.model_card(model, found)))
    typer.echo(f"{model / 'README.md'}: written, with {len(found)} evaluations")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model folder that `cdconv train` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Copies a model folder with its weights in fp16, half the bytes, to be shipped."""
    from contradiction.export import export as run

    size = sum(file.stat().st_size for file in run(model, out).rglob("*") if file.is_file())
    typer.echo(f"{out}: {size / 1e6:.1f} MB; next: cdconv evaluate {out}")


@app.command("results")
def results_(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("models/README.md"),
    folder: Annotated[Path, typer.Option(help="The kept results.")] = Path("models/results"),
) -> None:
    """Writes the page of results from the kept results."""
    from contradiction import cards, files

    files.write_text(out, cards.results_page(folder))
    typer.echo(f"{out}: written from {folder}")


@app.command()
def space(
    model: ModelOption = DEMO,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 7860,
) -> None:
    """Starts the page in which anyone can try a detector."""
    from contradiction.page import serve

    demand_model(model)
    serve(model, host=host, port=port)


@app.command()
def demo(
    source: SourceOption = None,
    backbone: Annotated[str | None, typer.Option(help="Folder or Hub id of an encoder to fine-tune.")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page at the end.")] = True,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of the page.")] = 7860,
) -> None:
    """The whole line: builds the data, trains, evaluates, and opens the page."""
    from contradiction import datarepo
    from contradiction.recipes import Recipe

    found = _find(source, fall_back=source is None)
    data, out = (
        ("cdconv", Path(DEMO)) if found.kind == "release" else (f"cdconv-{found.kind}", Path(f"{DEMO}-{found.kind}"))
    )
    typer.secho("1. data set", bold=True)
    typer.echo(f"{datarepo.build(found, data)}: six configs from {found.path}")
    typer.secho("2. training", bold=True)
    recipe = Recipe.load("flatten-4-class").with_changes(backbone=backbone) if backbone else Recipe.load("tiny")
    if backbone:
        out = out.with_name(f"{out.name}-{Path(backbone).name}")
    else:
        typer.echo(
            "no backbone named, so a small encoder is trained from scratch: it shows the steps, not what is possible"
        )
    _set_aside_another_run(out, recipe, data)
    _train(recipe, data, out, resume=True)
    typer.secho("3. evaluation", bold=True)
    kept = out.with_name(f"{out.name}.results")
    evaluate(str(out), data=data, config=None, split="test", view=None, json=kept / "test.json")
    card(out, results=kept)
    if open_page:
        typer.secho("4. the page", bold=True)
        space(str(out), port=port, host="127.0.0.1")


def _set_aside_another_run(out: Path, recipe: "Recipe", data: str) -> None:
    """Renames a run of another recipe or other data, so that the demo can use its name and nothing is lost."""
    from contradiction import record
    from contradiction.training import request

    for place in (out, out.with_name(f"{out.name}.partial")):
        if place.exists() and record.request(place) != request(recipe, data):
            number = next(n for n in range(1, 10_000) if not place.with_name(f"{place.name}.{n}").exists())
            place.rename(place.with_name(f"{place.name}.{number}"))
            typer.echo(f"{place}: of another recipe or other data, now {place.name}.{number}")


if __name__ == "__main__":
    main()
