"""``cdconv data``: builds the data repos and shows what is in them."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.common import DATA, FolderOutOption, say, show
from contradiction.errors import InputError

if TYPE_CHECKING:
    from contradiction.data.build import Source

app = typer.Typer(help="Builds the data repo and shows what is in it.", no_args_is_help=True)

SourceOption = Annotated[
    str | None,
    typer.Option(help="The raw file of CDConv, or `sample`. By default $CDCONV_FILE; if it is not set, a download."),
]


def find(source: str | None, fall_back: bool = False) -> "Source":
    """The raw file that an option names; a note on stderr says if it is not the released file.

    With ``fall_back``, it is the embedded sample if the released file is not available.
    """
    from contradiction.data import build

    try:
        raw = build.find(source)
    except InputError as error:
        if not fall_back or os.environ.get("CDCONV_FILE"):  # the user has named a file
            raise
        say(str(error))
        raw = build.find("sample")
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
        typer.Option(
            "--checklists", help="Also build the checklists: test rows with added turns, and with removed turns."
        ),
    ] = False,
) -> None:
    """Builds the data repo that `load_dataset("cdconv", "4-class")` reads."""
    from contradiction.data import build
    from contradiction.reports.tables import baseline_table

    raw = find(source)
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


@app.command("stats")
def stats(
    folder: Annotated[
        Path | None, typer.Argument(help="A folder that `cdconv data build` wrote.", show_default="the raw file")
    ] = None,
    source: SourceOption = None,
) -> None:
    """Prints the paper's Table 3, the sizes of all configs and splits, and the overlap of the splits.

    Of the folder of another data set, it prints the sizes alone.
    """
    from contradiction import cdconv
    from contradiction.data import statistics
    from contradiction.data.splits import both_splits, load_all

    if folder and source:
        raise InputError(f"--source names a raw file, and {folder} is a folder of built data; leave one of them out")
    if folder:
        return show(*statistics.of_repo(load_all(folder)))
    rows = cdconv.read_rows(find(source).path)
    splits = both_splits(rows)
    show(*statistics.table3(rows), statistics.split_sizes(splits), statistics.leaks(splits))
