"""The analysis turns a detector or a kept evaluation into a folder with a page, plots and tables."""

import csv
import json
import re
from functools import partial

import numpy as np
import pytest
from helpers.evaluations import FOUR
from helpers.runs import with_options
from matplotlib.colors import to_rgb

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import figures, results
from contradiction.evaluation.evaluate import evaluate
from contradiction.io.files import write_json
from contradiction.reports import analysis_plots
from contradiction.reports.analysis import analyse, measure
from contradiction.reports.analysis_page import check_place, page, standing, write
from contradiction.reports.analysis_plots import PALETTES, plots, png, readable_on


@pytest.fixture(autouse=True, scope="module")
def fast_analysis():
    """Fewer resamples and smaller plots, to save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "RESAMPLES", 50)
        patch.setattr(analysis_plots, "DPI", 60)
        yield


@pytest.mark.parametrize(
    ("colour", "letters"), [("#ffffff", "#0d1117"), ("#0072b2", "#ffffff"), ("#56b4e9", "#0d1117")]
)
def test_text_in_plots_contrasts_with_its_background(colour, letters):
    assert readable_on(to_rgb(colour)) == letters


def test_a_precision_based_on_few_false_alarms_is_flagged():
    point = {"reached": True, "wanted": 0.9, "low": 0.3, "false_positives": 0}
    assert standing(point) == "reached, on few false alarms"
    assert standing({**point, "low": 0.91}) == "reached"
    assert standing({**point, "false_positives": 10}) == "reached"
    assert standing({**point, "reached": False}) == "not reachable; the best is"


@pytest.fixture(scope="module")
def kept(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    done = []
    result = measure(detector, data=sample_repo, config="4-class", on_start=done.append, on_batch=done.append)
    assert done[0] == sum(done[1:]) == 2 * len(result["ids"])
    return json.loads(json.dumps(result))


@pytest.fixture(scope="module")
def folder(kept, sample_repo, tmp_path_factory):
    # Guaranteed errors of every kind, because the tiny model may predict one label throughout.
    wild = {**kept, "predictions": [(reference + 1) % 4 for reference in kept["references"]]}
    return write(analyse(wild, sample_repo), tmp_path_factory.mktemp("analyses") / "quick")


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_two_classes_are_also_analysed_by_category(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    analysis = analyse(measure(detector, data=sample_repo, config="2-class"), sample_repo)
    assert {row["label"] for row in analysis.removal} >= {"non-contradiction", "history"}
    assert "merged_macro_f1" not in analysis.slices[0]
    assert "slices-merged" not in plots(analysis)


def test_the_folder_contains_tables_plots_and_the_page(folder, kept):
    assert {path.name for path in folder.iterdir()} == {"index.html", "evaluation.json", "tables", "plots"}
    tables = {path.stem: read_csv(path) for path in (folder / "tables").iterdir()}
    assert set(tables) >= {"slices", "classes", "confusion", "reliability", "precision_recall", "operating_points"}
    assert [int(part["n"]) for part in tables["slices"]][0] == len(kept["ids"])
    assert len(tables["errors"]) == min(50, len(kept["ids"]))
    assert len(tables["operating_points"]) == 6
    plots = {path.stem for path in (folder / "plots").iterdir()}
    assert plots >= {"slices", "slices-merged", "confusion", "reliability", "precision-recall", "removal", "personas"}
    assert {f"{name}-dark" for name in plots if not name.endswith("-dark")} <= plots
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (folder / "plots").iterdir())


def test_the_page_is_self_contained(folder):
    html = (folder / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r'(?:src|srcset)="data:image/png', html)) == len(list((folder / "plots").iterdir()))
    assert not re.search(r'(?:src|srcset|href)="(?!data:|#)|url\(|@import', html)


def test_the_page_escapes_user_text(kept, sample_repo):
    html = page(analyse({**kept, "name": "<script>alert(1)</script>"}, sample_repo), {})
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_baselines_on_the_same_rows_are_shown_beside_the_detector(kept, sample_repo, tmp_path):
    base = {**kept, "kind": "baseline", "name": "always none", "predictions": [0] * len(kept["ids"])}
    perfect = {**kept, "predictions": kept["references"]}
    write_json(tmp_path / "same.json", base)
    write_json(tmp_path / "other.json", {**base, "name": "of other rows", "ids": kept["ids"][::-1]})
    detector_row, beside = analyse(perfect, sample_repo, tmp_path).comparison
    assert (detector_row["name"], beside["name"]) == ("quick", "always none")
    assert beside["difference"] == pytest.approx(kept_macro(perfect) - kept_macro(base))
    assert beside["p_value"] < 0.01


def kept_macro(result):
    from sklearn.metrics import f1_score

    return f1_score(
        result["references"], result["predictions"], average="macro", labels=range(len(FOUR)), zero_division=0
    )


def test_an_evaluation_without_the_removal_test_says_so(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    analysis = analyse(evaluate(detector, data=sample_repo, config="4-class"), sample_repo)
    assert analysis.removal is None
    html = page(analysis, {})
    assert "Not measured." in html
    assert "with the model" in html


@pytest.mark.parametrize("case", ["perfect", "one label", "always as sure"])
def test_extreme_detectors_get_a_page_too(kept, sample_repo, case):
    none = [0] * len(kept["ids"])
    change = {
        "perfect": {"predictions": kept["references"], "probabilities": np.eye(4)[kept["references"]].tolist()},
        "one label": {"predictions": none, "without_first_turn": none},
        "always as sure": {"probabilities": [[0.25] * 4] * len(none)},
    }[case]
    analysis = analyse({**kept, **change}, sample_repo)
    images = {name: {scheme: "" for scheme in PALETTES} for name in plots(analysis)}
    html = page(analysis, images)
    assert all(png(draw, analysis, PALETTES["light"]).startswith(b"\x89PNG") for draw in plots(analysis).values())
    assert "nan" not in html
    if case == "perfect":
        assert (analysis.mistakes, analysis.calibration_error, analysis.brier) == ([], 0, 0)
    if case == "always as sure":
        share = np.mean(np.array(kept["references"]) != 0)
        assert analysis.calibration_error == pytest.approx(abs(0.75 - share))
        assert analysis.average_precision == pytest.approx(share)


def test_a_detector_trained_on_the_other_split_is_flagged(kept, sample_repo):
    analysis = analyse(kept, sample_repo)
    assert "Trained on" not in page(analysis, {})
    request = with_options(kept["run"]["request"], config="2-class-grouped")
    other = {**kept, "run": {**kept["run"], "request": request}}
    marked = {**other, "leakage": "was trained on 2-class-grouped"}
    older = {key: value for key, value in other.items() if key != "leakage"}
    for result in (marked, older):
        assert "Trained on 2-class-grouped</strong>" in page(analyse(result, sample_repo), {})


def test_a_detector_that_reads_no_first_turn_skips_the_removal_test(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model, view="reply-only")
    result = measure(detector, data=sample_repo, config="4-class")
    assert result["without_first_turn"] is None
    assert "reads neither u1 nor b1" in str(analyse(result, sample_repo).removal_note)


def test_nothing_but_an_analysis_is_replaced(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    (work / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="something else than an analysis"):
        check_place(work)
    monkeypatch.chdir(tmp_path)
    for taken in (".", "..", "/"):
        with pytest.raises(InputError, match=rf"^{re.escape(taken)}: the folder you are in"):
            check_place(taken)
    check_place(tmp_path / "new")


@pytest.fixture
def run(run):
    """Runs `cdconv analyze` in this process and returns exit code, stdout and stderr."""
    return partial(run, "analyze")


def test_the_command_accepts_a_model_and_then_its_evaluation(run, quick_model, sample_repo, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    code, out, _ = run(quick_model, "--data", sample_repo, "--out", first)
    assert (code, out.split(":")[0]) == (0, str(first / "index.html"))
    code, *_ = run(first / "evaluation.json", "--data", sample_repo, "--out", second)
    assert code == 0
    files = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [name for name in files if (first / name).read_bytes() != (second / name).read_bytes()] == []
    code, _, err = run(first / "evaluation.json", "--config", "2-class", "--data", sample_repo, "--out", second)
    assert (code, err.count("\n")) == (2, 1)
    assert "is an evaluation on config '4-class', not '2-class'" in err


def test_a_kept_evaluation_can_be_analysed_by_name(run, kept, sample_repo, tmp_path):
    results.add([kept], tmp_path / "kept")
    options = ["--data", sample_repo, "--out", tmp_path / "out", "--results", tmp_path / "kept"]
    code, _, err = run("quick", *options)
    assert code == 0 and err.startswith("cdconv: quick ") and err.count("\n") == 1
    assert "<h1>quick</h1>" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_the_screen_and_shows_its_plots(folder, chromium, width):
    grounds = {}
    for scheme in ("light", "dark"):
        tab = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        console = []
        tab.on("console", lambda message, console=console: console.append(message.text))
        tab.goto(folder.joinpath("index.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        images = tab.evaluate("[...document.images].map(image => [image.currentSrc.length, image.naturalWidth])")
        assert len(images) >= 7
        assert all(drawn > 300 for _, drawn in images)
        grounds[scheme] = (tab.evaluate("getComputedStyle(document.body).backgroundColor"), images)
        assert console == []
    assert grounds["light"][0] != grounds["dark"][0]
    assert grounds["light"][1] != grounds["dark"][1]
