"""Where a detector fails: slices by hand, the baselines on the same rows, and the folder that the page shows."""

import csv

import pytest

from contradiction.detector import ContradictionDetector
from contradiction.evaluation import figures
from contradiction.evaluation.evaluate import evaluate
from contradiction.io.files import write_json
from experiments import analysis_plots, analyze
from experiments.analyze import ALL, slices


@pytest.fixture(autouse=True, scope="module")
def fast_analysis():
    """Fewer resamples and smaller plots, to save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "RESAMPLES", 50)
        patch.setattr(analysis_plots, "DPI", 60)
        yield


def test_a_slice_is_scored_on_its_own_rows():
    labels = {"config": "2-class", "references": [0, 0, 1, 1, 0, 1], "predictions": [0, 1, 1, 1, 1, 0]}
    by_name = {part["slice"]: part for part in slices(labels, {"bot": ["eva"] * 4 + ["plato"] * 2})}
    # eva: non-contradiction has precision 1 and recall 1/2, F1 2/3; contradiction 2/3 and 1, F1 4/5.
    assert by_name["eva"]["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert (by_name["eva"]["n"], by_name["eva"]["contradictions"]) == (4, 2)
    assert by_name["plato"]["macro_f1"] == 0
    assert by_name[ALL]["macro_f1"] == pytest.approx((2 * 1 / (3 + 2) + 2 * 2 / (3 + 4)) / 2)
    assert by_name["eva"]["low"] <= by_name["eva"]["macro_f1"] <= by_name["eva"]["high"]


def test_the_script_writes_what_the_page_of_the_space_reads(run, quick_model, sample_repo, tmp_path):
    kept = evaluate(ContradictionDetector.from_pretrained(quick_model), data=sample_repo, config="4-class")
    write_json(tmp_path / "kept.json", kept)
    arguments = [tmp_path / "kept.json", "--data", sample_repo, "--out", tmp_path / "out"]
    (tmp_path / "out" / "plots").mkdir(parents=True)
    (tmp_path / "out" / "plots" / "older.png").touch()  # an older analysis is replaced
    assert run(*arguments, script=analyze.main)[0] == 0
    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert names == {
        *(f"tables/{name}.csv" for name in ("classes", "comparison", "operating_points", "slices")),
        *(f"plots/{name}{end}.png" for name in analysis_plots.PLOTS for end in ("", "-dark")),
    }
    with (tmp_path / "out" / "tables" / "slices.csv").open(encoding="utf-8", newline="") as lines:
        assert int(next(csv.DictReader(lines))["n"]) == len(kept["ids"])
    (tmp_path / "out" / "thesis.txt").write_text("mine", encoding="utf-8")
    code, _, err = run(*arguments, script=analyze.main)
    assert code == 2 and "holds something else than an analysis" in err
