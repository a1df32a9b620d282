"""The command line. Heavy imports are inside the commands, so that ``--help`` answers at once."""

import inspect
import logging
import re
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, NoReturn

import typer

from contradiction import __version__
from contradiction.commands import data, detect, models, probe, serve, train
from contradiction.commands.common import say
from contradiction.errors import CLOSED_PIPE, INTERRUPTED, InputError

app = typer.Typer(
    help="Contradictions in Chinese conversations: data set, training, evaluation, detection.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The help shows these panels. Typer lists the commands of a panel before those that have subcommands.
PANELS: dict[str, list[Callable[..., object] | tuple[str, typer.Typer]]] = {
    "Use": [detect.detect, serve.serve, serve.space, serve.review, ("probe", probe.app)],
    "Train": [train.train, train.adapt, train.calibrate, train.ensemble],
    "Evaluate": [models.evaluate, models.cascade],
    "Publish": [models.export, models.card, ("push", models.app)],
    "Data": [("data", data.app), ("corpora", data.corpora_app)],
}
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, tuple):
            app.add_typer(command[1], name=command[0], rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)


def _print_version(enabled: bool) -> None:
    if enabled:
        names = ("torch", "transformers", "datasets")
        versions = ", ".join(f"{name} {_version(name)}" for name in names)
        typer.echo(f"cdconv {__version__} ({versions})")
        raise typer.Exit


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show versions and exit.")
    ] = False,
) -> None:
    pass


def join_help_lines(app: typer.Typer) -> None:
    """Makes each paragraph of the helps one line, which wraps where a terminal ends; Typer keeps the lines of code."""
    for command in app.registered_commands:
        paragraphs = (command.help or inspect.getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for group in app.registered_groups:
        if group.typer_instance:
            join_help_lines(group.typer_instance)


def main(app: typer.Typer = app) -> None:
    """Runs a command line, by default `cdconv`; a user error prints one line to stderr and exits with code 2."""
    join_help_lines(app)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        if hasattr(stream, "reconfigure"):  # a terminal without Chinese characters shows escapes
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(format="cdconv: %(message)s")
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # Typer turns it into the code 1
            sys.exit(CLOSED_PIPE)
        raise
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # Typer has already printed the help
            sys.exit(2)
        _fail(error.format_message().replace("Value error, ", "").rstrip("."))
    except _user_errors() as error:
        parts = (error.filename, error.strerror) if isinstance(error, OSError) else ()
        _fail(": ".join(str(part) for part in parts if part) or str(error))
    except UnicodeEncodeError:
        # Bytes that are not UTF-8 reach Python as surrogates. They may name a file, so they are no error before.
        wrong = next((argument for argument in sys.argv if re.search("[\ud800-\udfff]", argument)), None)
        if wrong is None:
            raise
        _fail(str(InputError(f"{wrong}: this argument holds bytes that are not UTF-8")))


def script(command: Callable[..., object]) -> typer.Typer:
    """A function as the command line of a script, for :func:`main`."""
    made = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    made.command()(command)
    return made


def _user_errors() -> tuple[type[Exception], ...]:
    errors: list[type[Exception]] = [InputError, OSError]
    # Only if it is loaded: importing cdconv is slow, and a module that is not loaded has raised no error.
    if module := sys.modules.get("contradiction.cdconv"):
        errors += [module.InvalidSourceError, module.NonMatchingChecksumError]
    return tuple(errors)


def _fail(message: str) -> NoReturn:
    say(message)
    sys.exit(2)
