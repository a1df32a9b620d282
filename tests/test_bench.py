"""The page of speed measurements says what its seconds are."""

import importlib

from contradiction.io.tables import Table
from contradiction.paths import CHECKOUT


def test_the_page_names_the_tables_that_are_not_in_cpu_seconds(monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT / "bench"))
    run, measure = importlib.import_module("run"), importlib.import_module("measure")
    results = {"environment": {**measure.environment(), "quick": False, "CPU time": True}}
    tables = {name: [Table(f"Table of {name}", ("what", "seconds"), [])] for name in ("throughput", "startup", "jobs")}

    def busy(tables):
        [line] = [line for line in run._page(results, tables, []).splitlines() if "busy" in line]
        return line

    assert "of the processor" in busy(tables)
    assert "Table of startup, Table of jobs" in busy(tables) and "throughput" not in busy(tables)
    assert busy({"throughput": tables["throughput"]}).endswith("of the processor, with one thread")
