"""``cdconv train``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction.commands.options import DATA, DataOption, data_option
from contradiction.errors import InputError

if TYPE_CHECKING:
    from contradiction.training.recipe import Recipe


def train(
    recipe: Annotated[str, typer.Argument(help="A TOML file, the name of one in models/recipes, or a run.json.")],
    backbone: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder, instead of the recipe's.")
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(help="Hub id of what a backbone in a folder is a copy or pruned form of, for the card."),
    ] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="Folder or Hub id of a teacher, instead of the recipe's; once for each.")
    ] = None,
    nli: Annotated[
        str | None, typer.Option(help="Data repo of NLI pairs to read beside the rows, instead of the recipe's.")
    ] = None,
    data: DataOption = DATA,
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
    from contradiction.training.recipe_files import load_recipe, require_folders

    chosen = load_recipe(recipe).with_changes(
        backbone=backbone,
        base_model=base_model,
        teachers=teacher or None,
        nli=nli,
        seed=seed,
        precision=precision,
    )
    require_folders(chosen, recipe)
    out = out or Path("runs") / f"{chosen.name}-seed{chosen.seed}"
    run(chosen, data, out, resume=resume, save_steps=save_steps, track=track, deterministic=deterministic)


def run(recipe: "Recipe", data: str, out: Path, **options: Any) -> None:
    """Trains by the recipe's method, writes the card, and says what to do next."""
    from accelerate import PartialState

    from contradiction.inputs.views import HIERARCHICAL
    from contradiction.reports.model_card import write_cards
    from contradiction.training import hierarchical, kernel
    from contradiction.training import loop as training

    if not recipe.model.fine_tunes:
        resume = options.pop("resume", False)
        if asked := [f"--{key.replace('_', '-')}" for key, each in options.items() if each]:
            raise InputError(f"{recipe.name}: its method trains nothing in steps; {asked[0]} has no place here")
        kernel.train(recipe, data=data, out=out, resume=resume)
    else:
        method = hierarchical.train if recipe.data.view == HIERARCHICAL else training.train
        method(recipe, data=data, out=out, **options)
    if not PartialState().is_main_process:  # one of several is enough to say so
        return
    write_cards(out)
    if recipe.data.view != "nli":
        typer.echo(f"{out}: trained; next: cdconv evaluate {out}{data_option(data)}")
    else:
        typer.echo(f"{out}: trained; next: cdconv train RECIPE --backbone {out}")
