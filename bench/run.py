"""Measures everything side by side and writes bench/results: JSON, Markdown and a plot.

make bench                                # the whole, for idle cores
.venv/bin/python bench/run.py --quick     # a few rows and rounds, to see that it runs
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import processes
import throughput
import typer
from measure import Measured, environment

from contradiction import cli
from contradiction.errors import check_known
from contradiction.io.files import new_file, write_json, write_text
from contradiction.io.tables import Table
from contradiction.paths import SHIPPED

RESULTS = Path(__file__).with_name("results")
FAMILIES = ("throughput", "latency", "startup", "workers")


def main(
    model: Annotated[Path, typer.Option(help="The folder of the detector.")] = SHIPPED,
    quick: Annotated[bool, typer.Option("--quick", help="A few rows and rounds, to see that it runs.")] = False,
    only: Annotated[str, typer.Option(help=f"Families, separated by commas: {', '.join(FAMILIES)}.")] = "",
    out: Annotated[Path, typer.Option(help="The folder to write.")] = RESULTS,
) -> None:
    """Measures everything side by side, and writes JSON, Markdown and a plot."""
    chosen = [check_known(word, FAMILIES, "family") for word in only.split(",") if word] or FAMILIES
    with tempfile.TemporaryDirectory(prefix="cdconv-bench-") as name:
        model = shutil.copytree(model, Path(name) / model.resolve().name)
        # If the file is refused, the page names the backend as not measured.
        export = [sys.executable, "-m", "contradiction", "export", str(model), "--backend", "onnx"]
        subprocess.run(export, check=False)
        families: dict[str, Callable[[], Measured]] = {
            "throughput": lambda: throughput.measure(
                model, rows=16 if quick else 128, few=2 if quick else 16, rounds=1 if quick else 5
            ),
            "latency": lambda: throughput.latency(model, replies=2 if quick else 40),
            "startup": lambda: processes.startup(model, rounds=1 if quick else 5),
            "workers": lambda: processes.workers(model, rows=64 if quick else 2048, rounds=1 if quick else 2),
        }
        results = {"environment": {**environment(), "quick": quick}}
        tables: list[Table] = []
        left_out: list[str] = []
        for family in chosen:
            started = time.perf_counter()
            measured = families[family]()
            results[family] = {**measured.values, "bench seconds": round(time.perf_counter() - started, 1)}
            tables += measured.tables
            left_out += [reason for reason in measured.left_out if reason not in left_out]
            for table in measured.tables:
                print(f"\n{table.title}\n{table.markdown()}", flush=True)
            # After each family, so that a killed run leaves some.
            write_json(out / "speed.json", results)
            write_text(out / "speed.md", _page(results, tables, left_out))
        if "throughput" in results:
            _draw(results["throughput"], out / "speed.png")


def _page(results: dict, tables: Sequence[Table], left_out: Sequence[str]) -> str:
    machine = results["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        "# Speed\n\n`make bench` writes this page. Ways are measured in turn; ratios are medians over rounds.\n",
        f"- {machine['processor']}, {machine['threads']} threads; {', '.join(machine['flags']) or 'no AVX2'}",
        f"- Python {machine['python']}, {versions}",
        *(f"- not measured: {reason}" for reason in left_out),
        *(["- a quick run: the figures are rough"] if machine["quick"] else []),
    ]
    return "\n".join(lines) + "\n" + "".join(f"\n## {table.title}\n\n{table.markdown()}\n" for table in tables)


def _draw(values: dict, file: Path) -> None:
    """A bar for each way: conversations per second, on a logarithmic scale."""
    from matplotlib.figure import Figure

    others = tuple(f"batch {size}" for size in throughput.BATCH_SIZES if size != 32)
    rates = {
        name: figures["per second"]
        for name, figures in values.items()
        if isinstance(figures, dict) and not name.endswith(others)
    }
    figure = Figure(figsize=(8, 0.32 * len(rates) + 1), layout="constrained")
    axes = figure.subplots()
    colours = ["#0072B2" if name.startswith("detector") else "#74787F" for name in rates]
    bars = axes.barh(list(rates), list(rates.values()), color=colours)
    axes.bar_label(bars, [f"{rate:.3g}" for rate in rates.values()], padding=3)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.1)
    axes.set_xlabel("conversations per second")
    axes.spines[["top", "right"]].set_visible(False)
    with new_file(file) as partial:
        figure.savefig(partial, format="png", dpi=100)


if __name__ == "__main__":
    cli.main(cli.script(main))
