"""The command ``cdconv demo``: the commands for data, training, evaluation and the page, one after another."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.common import DATA, SHIPPED
from contradiction.commands.data import SourceOption, find
from contradiction.commands.evaluate import evaluate
from contradiction.commands.publish import card
from contradiction.commands.serve import LOOPBACK, check_page, space
from contradiction.commands.train import say_what_follows

DEMO = "runs/demo"  # the model folder of the demo


def demo(
    source: SourceOption = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train a small encoder from scratch, to show the steps.")
    ] = False,
    backbone: Annotated[str | None, typer.Option(help="Folder or Hub id of an encoder to fine-tune.")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page at the end.")] = True,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of the page.")] = 7860,
) -> None:
    """Builds the data, trains a detector or takes the shipped one, evaluates it, and opens the page."""
    from contradiction.data import build
    from contradiction.evaluation.tables import baseline_table

    if open_page:
        check_page(LOOPBACK, port)
    raw = find(source, fall_back=source is None)
    data, out = (DATA, Path(DEMO)) if raw.kind == "release" else (f"{DATA}-{raw.kind}", Path(f"{DEMO}-{raw.kind}"))
    typer.secho("1. data set", bold=True)
    build.build(raw, data, baselines=baseline_table())
    typer.echo(f"{data}: six configs from {raw.path}, and the configs crossed, crossed-long and crossed-en")
    typer.secho("2. detector", bold=True)
    shipped = Path(SHIPPED)
    if train or backbone or not shipped.exists():  # the installed package has no shipped detector
        model = _trained(out, backbone, data)
    else:
        model = shipped
        typer.echo(f"{model}: the shipped detector; --train trains a small one, --backbone fine-tunes an encoder")
    typer.secho("3. evaluation", bold=True)
    results = out.with_name(f"{out.name}.results")
    evaluate(str(model), data, split="test", json=results / f"{model.name}.test.json")
    if model != shipped:
        card(model, results=results)
    if open_page:
        typer.secho("4. the page", bold=True)
        space(str(model), port=port, host=LOOPBACK)


def _trained(out: Path, backbone: str | None, data: str) -> Path:
    from contradiction.runs import train

    if backbone:
        out = out.with_name(f"{out.name}-{Path(backbone).name}")
    else:
        typer.echo("a small encoder, trained from scratch: it only shows the steps, and its scores are low")
    train("flatten-4-class" if backbone else "tiny", data, out, resume=True, backbone=backbone)
    say_what_follows(out, data)
    return out
