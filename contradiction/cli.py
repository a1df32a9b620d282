"""The command line: parses, calls, prints. Heavy imports stand in the commands, so that ``--help`` answers at once."""

import sys
from typing import NoReturn

import typer

from contradiction.commands import (
    analyze,
    backbone,
    calibrate,
    data,
    demo,
    detect,
    evaluate,
    push,
    reproduce,
    results,
    soup,
    train,
)
from contradiction.errors import InputError

app = typer.Typer(
    help="Contradictions in Chinese conversations: data set, training, evaluation, detection.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
for command in (
    train.train, evaluate.evaluate, results.baselines, analyze.analyze, reproduce.reproduce, calibrate.calibrate,
    soup.soup, results.card, results.results, results.export, detect.detect, demo.space, demo.demo,
):  # fmt: skip
    app.command()(command)
app.add_typer(backbone.app, name="backbone")
app.add_typer(push.app, name="push")

INTERRUPTED = 130


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


if __name__ == "__main__":
    main()
