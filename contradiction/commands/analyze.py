"""The command ``cdconv analyze``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from contradiction.commands.common import DATA, RESULTS, SHOWN_RESULTS, DataOption, progress, warn_of_leakage
from contradiction.errors import InputError


def analyze(
    source: Annotated[
        str,
        typer.Argument(help="A model folder or Hub id; or an evaluation: a JSON file, or a name in the saved results."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    data: DataOption = DATA,
    config: Annotated[
        str | None, typer.Option(help="A config of the data. By default the one that the model was trained on.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, validation or test. By default test.")] = None,
    view: Annotated[str | None, typer.Option(help="The utterances to read, where the model does not say.")] = None,
    results: Annotated[
        Path, typer.Option(help="The folder of saved results, with the baselines.", show_default=SHOWN_RESULTS)
    ] = RESULTS,
) -> None:
    """Shows where a detector fails: slices, calibration, thresholds and errors, as a page, plots and tables.

    The analysis of an evaluation needs no model. The command writes the evaluation to evaluation.json.
    """
    from contradiction.evaluation.evaluated_rows import read_evaluation
    from contradiction.evaluation.results import check_folder
    from contradiction.reports import analysis_page
    from contradiction.reports.analysis import analyse

    check_folder(results)
    analysis_page.check_place(out)
    if Path(source).is_file():
        result = read_evaluation(source)
        for name, option, value in (("config", config, result["config"]), ("split", split, result["split"])):
            if option not in (None, value):
                raise InputError(f"{source}: is an evaluation on {name} {value!r}, not {option!r}; leave --{name} out")
        if view is not None:
            raise InputError(f"{source}: the view of an evaluation cannot be changed; leave --view out")
    elif Path(source).suffix == ".json":
        raise InputError(f"{source}: no such file; `cdconv evaluate MODEL --json {source}` writes one")
    elif saved := _saved(source, config, split or "test", results):
        if view is not None:
            raise InputError(f"{source}: the view of an evaluation cannot be changed; leave --view out")
        typer.echo(f"cdconv: {source} is a saved evaluation on {saved['config']}; no model is loaded", err=True)
        result = saved
    else:
        result = _measure(source, data, config, split or "test", view)
        warn_of_leakage(result)
    page = analysis_page.write(analyse(result, data, results), out) / analysis_page.PAGE
    typer.echo(f"{page}: written, with tables and plots beside it")


def _saved(source: str, config: str | None, split: str, folder: Path) -> dict[str, Any] | None:
    """The saved evaluation with this name; None for a model folder or Hub id, or without saved probabilities."""
    from contradiction.evaluation.results import load

    if "/" in source or Path(source).exists():
        return None
    saved = load(folder, config=config, split=split, names=[source])
    complete = [result for result in saved if "probabilities" in result]
    return max(complete, key=lambda result: result["config"], default=None)  # 4-class before 2-class


def _measure(model: str, data: str, config: str | None, split: str, view: str | None) -> dict[str, Any]:
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.reports.analysis import measure

    detector = ContradictionDetector.from_pretrained(model, view=view)
    with progress(f"analysing {Path(model).name}") as bar:
        task = bar.add_task("", total=None)
        return measure(
            detector, data=data, config=config or trained_config(model) or detector.task, split=split,
            on_start=lambda rows: bar.update(task, total=rows), on_batch=lambda done: bar.advance(task, done),
        )  # fmt: skip
