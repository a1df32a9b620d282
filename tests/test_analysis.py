"""The analysis: every figure against a case worked out by hand, and the folder that comes of a real model."""

import csv
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from records import with_options
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve

from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.io.files import write_json
from contradiction.labels import LABELS
from contradiction.rates import precision_at, wilson
from contradiction.reports.analysis.errors import errors, kinds
from contradiction.reports.analysis.figures import analyse, measure
from contradiction.reports.analysis.page import check_place, page, standing, write
from contradiction.reports.analysis.plots import LOOKS, drawings, png, readable_on
from contradiction.reports.analysis.predictions import Material, load, read_kept
from contradiction.reports.analysis.scores import (
    brier,
    calibration_error,
    curve,
    operating_points,
    reliability,
)
from contradiction.reports.analysis.slices import ALL, personas, quartiles, slices
from contradiction.reports.analysis.turns import judge_without_first_turn, removal

CHROMIUM = Path("/usr/bin/chromium")
FOUR = LABELS["4-class"]


def row(number, **changes):
    """A row as `Material` holds it."""
    return {
        "id": number,
        **{column: f"{column} {number}" for column in ("u1", "b1", "u2", "b2")},
        "trigger": "short",
        "bot": "eva",
        "batch": "1",
        "category": "non-contradiction",
        "persona": None,
        "seen_context": "unseen",
        "seen_u1": "unseen",
        **changes,
    }


def material(references, predictions, probabilities=None, rows=None, config="4-class"):
    """Material of label ids; by default the prediction has probability 0.7 and the others share the rest."""
    names = LABELS[config]
    probabilities = probabilities or [
        [0.7 if index == chosen else 0.3 / (len(names) - 1) for index in range(len(names))] for chosen in predictions
    ]
    result = {"config": config, "references": references, "predictions": predictions, "probabilities": probabilities}
    return Material(result, rows or [row(index, category=FOUR[each]) for index, each in enumerate(references)])


# Slices


def test_a_slice_is_scored_on_its_rows_alone():
    rows = [row(index, bot=bot) for index, bot in enumerate(["eva"] * 4 + ["plato"] * 2)]
    found = slices(material([0, 0, 1, 1, 0, 1], [0, 1, 1, 1, 1, 0], rows=rows, config="2-class"))
    by_name = {(each["by"], each["slice"]): each for each in found}
    # eva: non-contradiction has precision 1 and recall 1/2, F1 2/3; contradiction 2/3 and 1, F1 4/5.
    assert by_name["bot", "eva"]["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert by_name["bot", "eva"]["n"] == 4
    assert by_name["bot", "eva"]["contradictions"] == 2
    assert by_name["bot", "plato"]["macro_f1"] == 0
    # All rows: F1 of 2·1/(2+3) ... one hit of 3 and 2, two hits of 3 and 4.
    assert by_name[ALL, ALL]["macro_f1"] == pytest.approx((2 * 1 / (3 + 2) + 2 * 2 / (3 + 4)) / 2)
    assert by_name["bot", "eva"]["low"] <= by_name["bot", "eva"]["macro_f1"] <= by_name["bot", "eva"]["high"]


def test_every_row_is_in_one_slice_of_each_kind():
    rows = [
        row(index, trigger=trigger, b2="很" * length, seen_context=seen)
        for index, (trigger, length, seen) in enumerate(
            [
                ("perturb-negative", 3, "seen"),
                ("short", 9, "unseen"),
                ("short", 12, "seen"),
                ("paraphrasing", 5, "seen"),
            ]
        )
    ]
    found = slices(material([0, 1, 2, 3], [0, 1, 2, 0], rows=rows))
    groups = {each["by"]: [other["slice"] for other in found if other["by"] == each["by"]] for each in found}
    assert groups["trigger"] == ["short", "paraphrasing", "perturb-negative"]  # in the order of the paper
    assert groups["reply length, characters"] == ["3", "5", "9", "12"]
    assert groups["u1, b1, u2 in training"] == ["seen", "unseen"]
    for by in groups:
        assert sum(each["n"] for each in found if each["by"] == by) == 4


def test_a_label_without_rows_is_named_because_its_f1_counts_as_nothing():
    one, *_ = slices(material([0, 0, 3], [0, 0, 3]))
    assert one["absent"] == "intra-sentence, role-confusion"
    assert one["macro_f1"] == 0.5
    assert one["merged_macro_f1"] == 1


def test_equal_lengths_share_a_quarter():
    assert quartiles([2, 2, 2, 2, 2, 9]) == ["2"] * 5 + ["9"]
    assert quartiles([1, 2, 3, 4, 5, 6, 7, 8]) == ["1–2"] * 2 + ["3–4"] * 2 + ["5–6"] * 2 + ["7–8"] * 2


def test_personas_have_the_recall_of_history():
    rows = [row(index, persona=persona) for index, persona in enumerate(["opinions"] * 4 + ["attributes"] * 2 + [None])]
    found = personas(material([3] * 6 + [0], [3, 3, 3, 2, 3, 0, 3], rows=rows))
    assert [(each["persona"], each["found"], each["n"]) for each in found] == [("attributes", 1, 2), ("opinions", 3, 4)]
    assert found[1]["recall"] == 0.75


def test_the_wilson_interval_is_wilsons():
    z, n, share = 1.959963984540054, 10, 0.8
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    assert wilson(8, 10) == pytest.approx((middle - half, middle + half))
    assert wilson(0, 0) == (0, 1)


# Calibration


def test_calibration_error_of_two_bins_by_hand():
    truth = np.array([False, True, True, True])
    given = np.array([0.1, 0.3, 0.6, 0.8])
    bins = reliability(truth, given, bins=2)
    assert [(each["n"], each["mean_probability"], each["share"]) for each in bins] == [
        (2, pytest.approx(0.2), 0.5),
        (2, pytest.approx(0.7), 1.0),
    ]
    assert calibration_error(bins) == pytest.approx(0.5 * 0.3 + 0.5 * 0.3)
    # (0.01 + 0.49 + 0.16 + 0.04) / 4
    assert brier(truth, given) == pytest.approx(0.175)


def test_bins_weigh_by_their_rows():
    # Five rows say 0.2 and two 0.9: the median is 0.2, so that the bins hold five rows and two.
    truth = np.array([True, False, False, False, False, True, False])
    bins = reliability(truth, np.array([0.2] * 5 + [0.9] * 2), bins=2)
    assert [each["n"] for each in bins] == [5, 2]
    assert calibration_error(bins) == pytest.approx(2 / 7 * abs(0.9 - 0.5))


def test_bins_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    given = rng.random(500).round(2)  # with ties
    truth = rng.random(500) < given**2
    bins = reliability(truth, given)
    shares, means = calibration_curve(truth, given, n_bins=10, strategy="quantile")
    assert [each["share"] for each in bins] == pytest.approx(shares)
    assert [each["mean_probability"] for each in bins] == pytest.approx(means)
    assert sum(each["n"] for each in bins) == 500


# Thresholds

# From the surest down: c c n c n n n n (c a contradiction): precision 1, 1, 2/3, 3/4, 3/5, ...
TRUTH = np.array([True, True, False, True, False, False, False, False])
GIVEN = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])


def test_precision_follows_the_share_of_contradictions():
    # TPR 0.8, FPR 0.1: 0.4 / 0.45 at one half; 0.024 / 0.121 at 3 %.
    found = [float(precision_at(prior, np.array([0.8]), np.array([0.1]))[0]) for prior in (0.5, 0.03)]
    assert found == pytest.approx([0.4 / 0.45, 0.024 / 0.121])
    assert np.isnan(precision_at(0.5, np.array([0.0]), np.array([0.0]))[0])


def test_the_operating_point_keeps_the_most_recall():
    low, middle, high = operating_points(curve(TRUTH, GIVEN), 8, 3 / 8, targets=(0.5, 0.7, 0.9))
    assert (low["threshold"], low["recall"]) == (0.6, 1)  # 3 of 6 is enough, but 3 of 4 has fewer false alarms
    assert (middle["threshold"], middle["precision"]) == (0.6, pytest.approx(0.75))
    assert (high["threshold"], high["recall"], high["precision"]) == (0.8, pytest.approx(2 / 3), 1)
    assert (middle["true_positives"], middle["false_positives"]) == (3, 1)
    assert middle["alarms_per_1000"] == pytest.approx(500)
    assert all(each["reached"] and each["low"] <= each["precision"] <= each["high"] for each in (low, middle, high))


def test_at_another_share_the_same_threshold_has_another_precision():
    (point,) = operating_points(curve(TRUTH, GIVEN), 8, 0.03, targets=(0.13,))
    # TPR 1 and FPR 1/5 at the threshold 0.6: 0.03 / (0.03 + 0.97 / 5) = 0.1339...
    assert point["threshold"] == 0.6
    assert point["precision"] == pytest.approx(0.03 / (0.03 + 0.97 / 5))
    assert point["alarms_per_1000"] == pytest.approx(30 + 970 / 5)
    # The worse end of both intervals, then the better.
    (recall, best), (fewest, alarms) = wilson(3, 3), wilson(1, 5)
    assert point["low"] == pytest.approx(0.03 * recall / (0.03 * recall + 0.97 * alarms))
    assert point["high"] == pytest.approx(0.03 * best / (0.03 * best + 0.97 * fewest))


def test_what_cannot_be_reached_is_said_with_the_best_there_is():
    truth = np.array([False, True, True, False])
    (point,) = operating_points(curve(truth, np.array([0.9, 0.8, 0.7, 0.6])), 4, 0.5, targets=(0.9,))
    assert not point["reached"]
    assert (point["threshold"], point["precision"]) == (0.7, pytest.approx(2 / 3))
    assert standing(point) == "not reachable; the best is"


def test_a_precision_on_few_false_alarms_is_called_so():
    point = {"reached": True, "wanted": 0.9, "low": 0.3, "false_positives": 0}
    assert standing(point) == "reached, on few false alarms"
    assert standing({**point, "low": 0.91}) == "reached"
    assert standing({**point, "false_positives": 10}) == "reached"


def test_the_curve_is_that_of_scikit_learn():
    rng = np.random.default_rng(5)
    given = rng.random(200).round(2)
    truth = rng.random(200) < given
    points = {each["threshold"]: each for each in curve(truth, given)}
    precision, recall, thresholds = precision_recall_curve(truth, given)
    assert sorted(points) == thresholds.tolist()
    for index, threshold in enumerate(thresholds.tolist()):
        assert points[threshold]["precision"] == pytest.approx(precision[index])
        assert points[threshold]["recall"] == pytest.approx(recall[index])


# The removal test


def test_history_should_turn_and_the_rest_stay():
    references = [0, 0, 0, 1, 1, 2, 3, 3, 3, 3]
    predictions = [0, 0, 3, 1, 3, 2, 3, 2, 3, 0]
    without = [0, 3, 0, 2, 0, 0, 0, 0, 3, 0]
    found = {each["label"]: each for each in removal(material(references, predictions), without)}
    history = found["history"]
    # Three of four are called a contradiction, of whatever kind; without the first turn two of these are none.
    assert (history["should"], history["called"], history["called_without"]) == ("turn", 3, 1)
    assert (history["asked"], history["right"], history["rate"]) == (3, 2, pytest.approx(2 / 3))
    # Both are called one; one of them still is.
    assert (found["intra-sentence"]["asked"], found["intra-sentence"]["right"]) == (2, 1)
    # Two are rightly called none; one of them still is.
    assert (found["non-contradiction"]["asked"], found["non-contradiction"]["right"]) == (2, 1)
    assert (found["role-confusion"]["should"], found["role-confusion"]["rate"]) == (None, None)
    assert (found["role-confusion"]["called"], found["role-confusion"]["called_without"]) == (1, 0)


def test_the_first_turn_is_not_read_when_removed(quick_model, sample_rows):
    detector = ContradictionDetector.from_pretrained(quick_model)
    other = [{**each, "u1": "别的话", "b1": "另一句话"} for each in sample_rows]
    read = []
    judge = detector.judge
    detector.judge = lambda rows, **options: read.append(rows) or judge(rows, **options)
    found = [judge_without_first_turn(detector, rows, "4-class") for rows in (sample_rows, other)]
    assert found[0] == found[1]
    assert {(each["u1"], each["b1"]) for each in read[0]} == {("", "")}
    assert [each["b2"] for each in read[0]] == [each["b2"] for each in sample_rows]
    merged = judge_without_first_turn(detector, sample_rows, "2-class")
    assert set(merged) <= {0, 1}


# Errors


def test_errors_stand_surest_first():
    probabilities = [[0.1, 0.0, 0.0, 0.9], [0.6, 0.1, 0.1, 0.2], [0.95, 0.0, 0.0, 0.05], [0.2, 0.0, 0.0, 0.8]]
    found = errors(material([0, 3, 3, 3], [3, 0, 0, 3], probabilities))
    assert [(each["id"], each["label"], each["predicted"], each["score"]) for each in found] == [
        (2, "history", "non-contradiction", 0.95),
        (0, "non-contradiction", "history", 0.9),
        (1, "history", "non-contradiction", 0.6),
    ]
    assert found[0]["b2"] == "b2 2"


def test_a_kind_is_described_by_its_counts():
    rows = [row(index, trigger="short" if index < 20 else "paraphrasing") for index in range(45)]
    predictions = [0] * 5 + [3] * 15 + [0] * 10 + [3] * 10 + [3] * 5
    one = material([3] * 40 + [0] * 5, predictions, rows=rows)
    found = {(each["label"], each["predicted"]): each for each in kinds(one, errors(one), worst=4)}
    missed, alarms = found["history", "non-contradiction"], found["non-contradiction", "history"]
    assert (missed["errors"], missed["of"], missed["share"], missed["among_worst"]) == (15, 40, 0.375, 4)
    assert missed["sentence"] == (
        "15 of 40 history rows (37.5 %) are called non-contradiction; of the 4 surest errors 4 are of this kind. Most "
        "often after the trigger paraphrasing (10 of 20), least often after short (5 of 20)."
    )
    # Too few rows for a rate by trigger.
    assert alarms["sentence"] == (
        "5 of 5 non-contradiction rows (100.0 %) are called history; of the 4 surest errors 0 are of this kind."
    )


# From a model to the page


@pytest.mark.parametrize(
    ("colour", "letters"), [("#ffffff", "#0d1117"), ("#0072b2", "#ffffff"), ("#56b4e9", "#0d1117")]
)
def test_letters_are_readable_on_their_ground(colour, letters):
    assert readable_on(to_rgb(colour)) == letters


@pytest.fixture(scope="module")
def kept(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    done = []
    result = measure(detector, data=sample_repo, config="4-class", on_start=done.append, on_batch=done.append)
    assert done[0] == sum(done[1:]) == 2 * len(result["ids"])
    return json.loads(json.dumps(result))


@pytest.fixture(scope="module")
def folder(kept, sample_repo, tmp_path_factory):
    # Errors without doubt, of every kind: what the tiny model says by itself may be one label throughout.
    wild = {**kept, "predictions": [(each + 1) % 4 for each in kept["references"]]}
    return write(analyse(wild, sample_repo), tmp_path_factory.mktemp("analyses") / "quick")


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_rows_are_found_with_all_that_is_known_of_them(kept, sample_repo, sample_rows):
    found = {each["id"]: each for each in load(kept, sample_repo).rows}
    raw = {each["id"]: each for each in sample_rows}
    assert list(found) == kept["ids"]
    train = load_split(sample_repo, "4-class", "train")
    contexts = {(each["u1"], each["b1"], each["u2"]) for each in train}
    for number, each in found.items():
        assert each["category"] == FOUR[raw[number]["label"]]
        persona = raw[number]["persona"]
        assert each["persona"] == (None if persona is None else LABELS["persona"][persona])
        assert (each["trigger"], each["bot"], each["batch"]) == (
            raw[number]["trigger"],
            raw[number]["bot"],
            str(raw[number]["batch"]),
        )
        assert each["seen_context"] == ("seen" if (each["u1"], each["b1"], each["u2"]) in contexts else "unseen")
        assert each["seen_u1"] == ("seen" if each["u1"] in set(train["u1"]) else "unseen")


def test_two_classes_know_the_category_too(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    analysis = analyse(measure(detector, data=sample_repo, config="2-class"), sample_repo)
    assert {each["label"] for each in analysis.removal} >= {"non-contradiction", "history"}
    assert "merged_macro_f1" not in analysis.slices[0]
    assert "slices-merged" not in drawings(analysis)


def test_the_folder_holds_tables_plots_and_the_page(folder, kept):
    assert {each.name for each in folder.iterdir()} == {"index.html", "evaluation.json", "tables", "plots"}
    tables = {each.stem: read_csv(each) for each in (folder / "tables").iterdir()}
    assert set(tables) >= {"slices", "classes", "confusion", "reliability", "precision_recall", "operating_points"}
    assert [int(each["n"]) for each in tables["slices"]][0] == len(kept["ids"])
    assert len(tables["errors"]) == min(50, len(kept["ids"]))
    assert len(tables["operating_points"]) == 6
    plots = {each.stem for each in (folder / "plots").iterdir()}
    assert plots >= {"slices", "slices-merged", "confusion", "reliability", "precision-recall", "removal", "personas"}
    assert {f"{name}-dark" for name in plots if not name.endswith("-dark")} <= plots
    assert all(each.read_bytes().startswith(b"\x89PNG") for each in (folder / "plots").iterdir())


def test_the_page_needs_no_other_file(folder):
    html = (folder / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r'(?:src|srcset)="data:image/png', html)) == len(list((folder / "plots").iterdir()))
    assert not re.search(r'(?:src|srcset|href)="(?!data:|#)|url\(|@import', html)


def test_the_page_escapes_what_people_wrote(kept, sample_repo):
    html = page(analyse({**kept, "name": "<script>alert(1)</script>"}, sample_repo), {})
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_baselines_on_the_same_rows_stand_beside(kept, sample_repo, tmp_path):
    base = {**kept, "kind": "baseline", "name": "always none", "predictions": [0] * len(kept["ids"])}
    perfect = {**kept, "predictions": kept["references"]}
    write_json(tmp_path / "same.json", base)
    write_json(tmp_path / "other.json", {**base, "name": "of other rows", "ids": kept["ids"][::-1]})
    ours, beside = analyse(perfect, sample_repo, tmp_path).comparison
    assert (ours["name"], beside["name"]) == ("quick", "always none")
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
    assert "it cannot be had without the detector" in html


@pytest.mark.parametrize("case", ["perfect", "one label", "always as sure"])
def test_extreme_detectors_have_a_page_too(kept, sample_repo, case):
    none = [0] * len(kept["ids"])
    change = {
        "perfect": {"predictions": kept["references"], "probabilities": np.eye(4)[kept["references"]].tolist()},
        "one label": {"predictions": none, "without_first_turn": none},
        "always as sure": {"probabilities": [[0.25] * 4] * len(none)},
    }[case]
    analysis = analyse({**kept, **change}, sample_repo)
    images = {name: {scheme: "" for scheme in LOOKS} for name in drawings(analysis)}
    html = page(analysis, images)
    assert all(png(draw, analysis, LOOKS["light"]).startswith(b"\x89PNG") for draw in drawings(analysis).values())
    assert "nan" not in html
    if case == "perfect":
        assert (analysis.errors, analysis.calibration_error, analysis.brier) == ([], 0, 0)
    if case == "always as sure":
        share = np.mean(np.array(kept["references"]) != 0)
        assert analysis.calibration_error == pytest.approx(abs(0.75 - share))
        assert analysis.average_precision == pytest.approx(share)


def test_a_detector_trained_on_the_other_split_is_called_so(kept, sample_repo):
    analysis = analyse(kept, sample_repo)
    assert "Trained on" not in page(analysis, {})
    request = with_options(kept["run"]["request"], config="2-class-grouped")
    other = {**kept, "run": {**kept["run"], "request": request}}
    marked = {**other, "seen": "was trained on 2-class-grouped"}
    older = {key: value for key, value in other.items() if key != "seen"}
    for result in (marked, older):
        assert "Trained on 2-class-grouped</strong>" in page(analyse(result, sample_repo), {})


def test_a_detector_that_reads_no_first_turn_is_not_asked(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model, view="reply-only")
    result = measure(detector, data=sample_repo, config="4-class")
    assert result["without_first_turn"] is None
    assert "reads neither u1 nor b1" in str(analyse(result, sample_repo).removal_note)


def test_other_rows_are_refused(kept, sample_repo):
    with pytest.raises(InputError, match="was evaluated on other rows than the test split of '4-class'"):
        load({**kept, "ids": [number + 1 for number in kept["ids"]]}, sample_repo)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"probabilities": None}, "keeps no probabilities"),
        ({"ids": None}, "no kept evaluation, it has no ids"),
        ({"config": "persona"}, "tells no contradictions from other replies"),
        ({"config": "nli"}, "tells no contradictions from other replies"),
        ({"predictions": [0]}, "predictions must be a list of as many values as there are ids"),
        ({"metrics": {}}, "metrics has no accuracy, macro_f1, per_class, n, interval; the file is changed"),
        ({"metrics": []}, "metrics has no accuracy"),
        ({"ids": 7}, "ids must be a list"),
        ({"predictions": lambda kept: [4, *kept["predictions"][1:]]}, "predictions holds 4"),
        ({"without_first_turn": lambda kept: ["history"] * len(kept["ids"])}, "without_first_turn holds 'history'"),
        ({"probabilities": lambda kept: [[0.5, 0.5]] * len(kept["ids"])}, r"probabilities holds \[0.5, 0.5\]"),
        ({"probabilities": lambda kept: [[float("nan"), 0, 0, 1]] * len(kept["ids"])}, r"probabilities holds \[nan"),
    ],
)
def test_a_file_that_cannot_be_analysed_is_refused(kept, tmp_path, change, said):
    change = {key: value(kept) if callable(value) else value for key, value in change.items()}
    changed = {key: value for key, value in {**kept, **change}.items() if value is not None}
    write_json(tmp_path / "kept.json", changed)
    with pytest.raises(InputError, match=said):
        read_kept(tmp_path / "kept.json")


def test_nothing_but_an_analysis_is_replaced(tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    (work / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="holds something else than an analysis"):
        check_place(work)
    monkeypatch.chdir(tmp_path)
    for taken in (".", "..", "/"):
        with pytest.raises(InputError, match=rf"^{re.escape(taken)}: the folder you are in"):
            check_place(taken)
    check_place(tmp_path / "new")


@pytest.fixture
def run(run):
    """Calls `cdconv analyze` in this process; gives exit code, stdout and stderr."""
    return partial(run, "analyze")


def test_the_command_takes_a_model_and_then_its_evaluation(run, quick_model, sample_repo, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    code, said, _ = run(quick_model, "--data", sample_repo, "--out", first)
    assert (code, said.split(":")[0]) == (0, str(first / "index.html"))
    code, *_ = run(first / "evaluation.json", "--data", sample_repo, "--out", second)
    assert code == 0
    files = [each.relative_to(first) for each in first.rglob("*") if each.is_file()]
    assert len(files) > 20
    assert [name for name in files if (first / name).read_bytes() != (second / name).read_bytes()] == []
    code, _, said = run(first / "evaluation.json", "--config", "2-class", "--data", sample_repo, "--out", second)
    assert (code, said.count("\n")) == (2, 1)
    assert "keeps an evaluation on config '4-class', not '2-class'" in said


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_the_screen_and_shows_its_plots(folder, width):
    if not CHROMIUM.exists():
        pytest.skip("needs Chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        grounds = {}
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            said = []
            tab.on("console", lambda message, said=said: said.append(message.text))
            tab.goto(folder.joinpath("index.html").as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            images = tab.evaluate("[...document.images].map(image => [image.currentSrc.length, image.naturalWidth])")
            assert len(images) >= 7
            assert all(drawn > 600 for _, drawn in images)
            grounds[scheme] = (tab.evaluate("getComputedStyle(document.body).backgroundColor"), images)
            assert said == []
        assert grounds["light"][0] != grounds["dark"][0]
        assert grounds["light"][1] != grounds["dark"][1]
        browser.close()
