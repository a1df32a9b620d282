"""The commands ``cdconv data`` and ``cdconv corpora``: build data repos, and list what is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.common import DATA, say, show

if TYPE_CHECKING:
    from contradiction.data.build import Source
    from contradiction.data.corpora import Corpus

app = typer.Typer(help="Builds the data repo of CDConv, and one of NLI corpora.", no_args_is_help=True)

FolderOutOption = Annotated[Path, typer.Option(help="The folder to write.")]
SourceOption = Annotated[
    str | None,
    typer.Option(help="The raw file of CDConv, or `sample`. By default $CDCONV_FILE; if it is not set, a download."),
]


def find(source: str | None, out: Path | None = None) -> "Source":
    """The raw file that an option names; a note on stderr says if it is not the released file.

    Raises:
        InputError: there is none, or ``out`` holds what a build from it must not replace.
    """
    from contradiction.data import build

    raw = build.find(source)
    if out:
        build.check_out(raw, out)
    if raw.kind == "sample":
        typer.secho(
            "NOTE: this is the embedded sample, written for this project, and not CDConv; its scores only show how the "
            "steps work.", fg="yellow", bold=True, err=True,
        )  # fmt: skip
    elif raw.kind == "custom":
        typer.secho(
            f"NOTE: {raw.path} is not the released file; the published scores do not apply.", fg="yellow", err=True
        )
    return raw


@app.command("build")
def build(
    source: SourceOption = None,
    out: FolderOutOption = Path(DATA),
    checklists: Annotated[
        bool,
        typer.Option("--checklists", help="Also build the checklists: test rows with added or removed turns."),
    ] = False,
) -> None:
    """Builds the data repo that `load_dataset("cdconv", "4-class")` reads."""
    from contradiction.data import build
    from contradiction.evaluation.tables import baseline_table

    raw = find(source, out)
    content = "six configs and four checklists" if checklists else "six configs"
    build.build(raw, out, checklists, baseline_table())
    typer.echo(f"{out}: {content} from {raw.path}, and the configs crossed, crossed-long and crossed-en")


@app.command("nli")
def build_nli(
    train: Annotated[
        list[str],
        typer.Option(help="Corpora of the training split: files of OCNLI, CMNLI, XNLI, CNLI or DECODE, or ID:CONFIG."),
    ],
    validation: Annotated[list[str], typer.Option(help="Corpora of the validation split.")],
    out: FolderOutOption = Path("nli"),
    exclude: Annotated[
        list[str] | None, typer.Option(help="Corpora whose pairs the training split must not contain.")
    ] = None,
) -> None:
    """Builds a data repo of NLI corpora, for the NLI stage before CDConv.

    From the Hub: clue/clue:ocnli, clue/clue:cmnli, facebook/xnli:zh. ID:CONFIG reads the split of the same name, and
    ID:CONFIG:SPLIT another one. If $CDCONV_CORPORA is set, a name of a corpus of pairs works too: ocnli, cnli, decode.
    """
    from contradiction.data import nli

    built = nli.build(train, validation, out, exclude or [])
    for note, count in built.notes.items():
        say(f"{count:,} {note}")
    if exclude:
        say(f"{built.excluded:,} training pairs left out because an excluded corpus contains them")
    if built.two_way:
        say(f"{built.two_way:,} training pairs have only two labels; in the config nli, consistent ones have -1")
    typer.echo(
        f"{out}: {built.train:,} training and {built.validation:,} validation pairs; {built.dropped:,} training "
        "pairs left out because they are duplicates or in the validation split"
    )


corpora_app = typer.Typer(help="Lists the corpora that this package reads, and builds data repos of them.")

NameArgument = Annotated[str, typer.Argument(help="The name of a corpus; `cdconv corpora` lists them.")]


@corpora_app.callback(invoke_without_command=True)
def corpora(context: typer.Context) -> None:
    """Lists the corpora with language, licence, size, and the splits that are on this machine.

    $CDCONV_CORPORA names a folder with one subfolder for each corpus, named after it.
    """
    if context.invoked_subcommand:
        return
    from contradiction.data.corpora import all_corpora
    from contradiction.io.tables import Table

    rows = [
        (corpus.name, ", ".join(corpus.languages), _licence(corpus), corpus.size, _local(corpus))
        for corpus in all_corpora().values()
    ]
    show(Table("Corpora", ("name", "language", "licence", "size", "local copy"), rows, texts=5))


@corpora_app.command("show")
def show_corpus(name: NameArgument) -> None:
    """Describes a corpus: where it can be downloaded, and which files are read."""
    from contradiction.data.corpora import find
    from contradiction.io.tables import Table

    corpus = find(name)
    facts = {
        "title": corpus.title, "origin": corpus.citation, "language": ", ".join(corpus.languages),
        "licence": _licence(corpus), "download": corpus.homepage, "size": corpus.size, "local copy": _local(corpus),
    }  # fmt: skip
    typer.echo("\n".join(f"{label:12}{text}" for label, text in facts.items()))
    if corpus.description:
        typer.echo(f"\n{corpus.description}\n")
    local = _splits_here(corpus)
    files = [
        (config.name, config.shape, split, " or ".join(patterns), "yes" if (config.name, split) in local else "no")
        for config in corpus.configs
        for split, patterns in config.files.items()
    ]
    show(Table("Files", ("config", "form", "split", "file", "local copy"), files, texts=5))
    labels = [(config.name, ", ".join(config.labels)) for config in corpus.configs]
    show(Table("Labels", ("config", "labels"), labels, texts=2))
    if corpus.checksums:
        show(Table("Known files", ("file", "SHA-256"), sorted(corpus.checksums.items()), texts=2))


@corpora_app.command("build")
def build_corpus(
    name: NameArgument,
    out: FolderOutOption,
    source: Annotated[
        Path | None,
        typer.Option(help="The folder of the corpus, or one file.", show_default="its folder in $CDCONV_CORPORA"),
    ] = None,
) -> None:
    """Builds a data repo of a corpus, with Parquet files and a card, for `load_dataset`."""
    from contradiction.data.corpora import data_repo, find

    corpus = find(name)
    splits, sizes = data_repo.build(corpus, source, out)
    for note in data_repo.notes_of(corpus, splits):
        say(note)
    show(sizes)
    typer.echo(f"{out}: {corpus.title}")


def _licence(corpus: "Corpus") -> str:
    return "not stated" if corpus.license == "unknown" else corpus.license


def _local(corpus: "Corpus") -> str:
    """The splits of the local copy, of any config."""
    return ", ".join(dict.fromkeys(split for _, split in _splits_here(corpus))) or "no"


def _splits_here(corpus: "Corpus") -> list[tuple[str, str]]:
    """The configs and splits of the local copy; empty if there is none."""
    from contradiction.data.corpora import local_copy, local_splits

    place = local_copy(corpus)
    return [(config.name, split) for config, split in local_splits(corpus, place)] if place else []
