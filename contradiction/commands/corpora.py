"""``cdconv corpora``: the corpora that ask the same question, and data repos of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.common import FolderOutOption, say, show

if TYPE_CHECKING:
    from contradiction.data.corpora.corpus import Config, Corpus

PARTIAL = "*"  # the mark of a split that only some configs have here

app = typer.Typer(help="Lists the corpora that this package reads, and builds data repos of them.")

FolderOption = Annotated[
    Path | None,
    typer.Option(help="A folder with one subfolder for each corpus, named after it.", show_default="$CDCONV_CORPORA"),
]
NameArgument = Annotated[str, typer.Argument(help="The name of a corpus; `cdconv corpora` lists them.")]
SourceOption = Annotated[
    Path | None, typer.Option(help="The folder of the corpus, or one file.", show_default="in the folder of corpora")
]


@app.callback(invoke_without_command=True)
def corpora(context: typer.Context, folder: FolderOption = None) -> None:
    """Lists the corpora with language, licence, size, and the splits that are on this machine."""
    if context.invoked_subcommand:
        if folder:
            context.default_map = {context.invoked_subcommand: {"folder": folder}}
        return
    from contradiction.data.corpora import all_corpora
    from contradiction.io.tables import Table

    rows = [
        (corpus.name, ", ".join(corpus.languages), _licence(corpus), corpus.size, _local(corpus, folder))
        for corpus in all_corpora().values()
    ]
    title = f"Corpora ({PARTIAL} of some configs only, which `cdconv corpora show NAME` lists)"
    show(Table(title, ("name", "language", "licence", "size", "local copy"), rows, texts=5))


@app.command("show")
def show_corpus(name: NameArgument, folder: FolderOption = None) -> None:
    """Describes a corpus: where it can be downloaded, and which files are read."""
    from contradiction.data.corpora import find
    from contradiction.io.tables import Table

    corpus = find(name)
    facts = [
        ("title", corpus.title), ("origin", corpus.citation), ("language", ", ".join(corpus.languages)),
        ("licence", _licence(corpus)), ("download", corpus.homepage), ("size", corpus.size),
        ("local copy", _local(corpus, folder)),
    ]  # fmt: skip
    typer.echo("\n".join(f"{label:12}{text}" for label, text in facts))
    if corpus.description:
        typer.echo(f"\n{corpus.description}\n")
    local = {(config.name, split) for config, split in _splits_here(corpus, folder)}
    files = [
        (config.name, config.shape, split, " or ".join(patterns), "yes" if (config.name, split) in local else "no")
        for config in corpus.configs
        for split, patterns in config.files.items()
    ]
    show(Table("Files", ("config", "form", "split", "file", "local copy"), files, texts=5))
    show(
        Table("Labels", ("config", "labels"), [(config.name, ", ".join(config.labels)) for config in corpus.configs], 2)
    )
    if corpus.checksums:
        show(Table("Known files", ("file", "SHA-256"), sorted(corpus.checksums.items()), texts=2))


@app.command("build")
def build(
    name: NameArgument,
    out: FolderOutOption,
    source: SourceOption = None,
    folder: FolderOption = None,
) -> None:
    """Builds a data repo of a corpus, with Parquet files and a card, for `load_dataset`."""
    from contradiction.data.corpora import data_repo, find, local_copy

    corpus = find(name)
    splits = data_repo.build(corpus, source or local_copy(corpus, folder), out)
    for note in data_repo.notes_of(splits):
        say(note)
    if missing := data_repo.missing_splits(corpus, splits):
        say(f"missing in the source: {', '.join(missing)}; the complete {corpus.name} is at {corpus.homepage}")
    show(data_repo.size_table(splits))
    typer.echo(f"{out}: {corpus.title}")


def _licence(corpus: "Corpus") -> str:
    return "not stated" if corpus.license == "unknown" else corpus.license


def _local(corpus: "Corpus", folder: Path | None) -> str:
    """The splits of the local copy; a split that only some of its configs have is marked."""
    from collections import Counter

    here = Counter(split for _, split in _splits_here(corpus, folder))
    there = Counter(split for config in corpus.configs for split in config.files)
    return ", ".join(split + PARTIAL * (count < there[split]) for split, count in here.items()) or "no"


def _splits_here(corpus: "Corpus", folder: Path | None) -> list[tuple["Config", str]]:
    """The configs and splits of the local copy; empty where there is none."""
    from contradiction.data.corpora import local_copy
    from contradiction.data.corpora.corpus import local_splits

    place = local_copy(corpus, folder)
    return local_splits(corpus, place) if place else []
