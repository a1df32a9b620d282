"""The commands that prepare a model folder for others: its card, and its weights in other formats."""

from pathlib import Path
from typing import Annotated, Any

import typer

from contradiction.commands.common import ResultsOption, TrainedModelArgument
from contradiction.errors import InputError
from contradiction.paths import RESULTS


def card(model: TrainedModelArgument, results: ResultsOption = RESULTS) -> None:
    """Writes the card of a model from the record of its run and its saved evaluations."""
    from contradiction.evaluation.results import check_folder, evaluations_of
    from contradiction.io.files import write_text
    from contradiction.reports.model_card import model_card

    check_folder(results)
    evaluations = evaluations_of(model, results)
    write_text(model / "README.md", str(model_card(model, evaluations)))
    typer.echo(f"{model / 'README.md'}: written, with {len(evaluations)} evaluations")


def export(
    model: TrainedModelArgument,
    out: Annotated[Path | None, typer.Option(help="The folder to write. Only for --backend torch.")] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="torch: a copy in fp16. onnx, openvino: a file beside the weights, for ONNX Runtime or OpenVINO."
        ),
    ] = "torch",
    calibrate_head: Annotated[
        bool,
        typer.Option(
            "--calibrate-head",
            help="Only for torch: moves the calibration into the head, so that `pipeline` gives calibrated scores.",
        ),
    ] = False,
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
        from contradiction.export import export as run

        if out is None:
            raise InputError("--out is missing; it names the folder to write")
        if data is not None:
            raise InputError("--data is only for --backend onnx and openvino")
        files = run(model, out, calibrate_head=calibrate_head).rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file())
        card = f", then cdconv card {out}" if calibrate_head else ""  # the copied card describes the model as it was
        typer.echo(f"{out}: {size / 1e6:.1f} MB; next: cdconv evaluate {out}{card}")
        return
    if out is not None:
        raise InputError(f"--out is only for --backend torch; {backend} writes its file beside the weights")
    if calibrate_head:
        raise InputError(f"--calibrate-head is only for --backend torch, not for {backend}")
    from contradiction.export import export_onnx

    for compared in export_onnx(model, backend, *_rows_to_compare(model, data)):
        typer.echo(f"{compared.file}: {compared.file.stat().st_size / 1e6:.1f} MB; {compared}")


def _rows_to_compare(model: Path, data: str | None) -> tuple[list[Any], list[str] | None]:
    """The rows to compare an exported file on, and their labels; no labels for the embedded sample."""
    if data is None:
        from contradiction import cdconv
        from contradiction.paths import SAMPLE

        return cdconv.read_rows(SAMPLE), None
    from contradiction.data.splits import load_labelled_split
    from contradiction.evaluation.evaluate import trained_config

    config = trained_config(model)
    if config is None:
        raise InputError(f"{model}: has no record that names its config; leave --data out")
    rows = load_labelled_split(data, config, "validation")
    return rows.to_list(), rows.features["label"].int2str(rows["label"][:])
