"""Decision rules: how they are fitted on validation, stored, applied, and measured on test."""

import shutil

import numpy as np
import pytest
from helpers.chats import chat, texts_of
from helpers.models import with_new_head
from helpers.rules import NAMES, added, decided, macro_f1
from helpers.runs import CURVE
from scipy.special import expit, logit, softmax
from sklearn.metrics import precision_recall_curve

from contradiction.data.splits import load_split
from contradiction.decision import KEY, Point, Rule, decide
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.figures import has_outcomes, outcomes, wilson
from contradiction.inputs.views import VIEWS
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import CONFIG
from contradiction.labels import CATEGORIES, NON_CONTRADICTION, STAGES
from contradiction.methods.calibration import (
    class_ids,
    curve_of,
    fit,
    fit_calibration,
    fit_kinds,
    fit_threshold,
    with_curve,
)
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.loading import fit_rule, load_classifier, load_rule, save_rule
from experiments.operating_points import operating_points, threshold_curve


def test_precision_at_a_prior_follows_bayes_rule():
    # 0.4 * 0.5 / (0.4 * 0.5 + 0.6 * 0.05), and at 3 %: 0.03 * 0.5 / (0.03 * 0.5 + 0.97 * 0.05)
    assert CURVE[1].precision(0.4) == pytest.approx(0.2 / 0.23)
    assert CURVE[1].precision(0.03) == pytest.approx(0.015 / 0.0635)
    assert Point(1.0, 0.0, 0.0).precision(0.4) == 0, "not NaN, which never compares equal"


def test_a_new_rule_is_in_the_manifest(tmp_path):
    write_json(tmp_path / "config.json", {})
    manifest.write(tmp_path)
    manifest.check(tmp_path)
    save_rule(tmp_path, Rule(temperature=3.0))
    manifest.check(tmp_path)
    assert load_rule(tmp_path) == Rule(temperature=3.0)


def test_a_rule_with_a_value_that_no_rule_can_have_is_damaged():
    nan, inf = float("nan"), float("inf")
    for values in (
        {"temperature": 0}, {"temperature": -1}, {"threshold": inf}, {"opening": nan}, {"biases": {"history": inf}},
        {"prior": 0}, {"prior": 1}, {"curve": [[0.5, 0.5, nan]]},
    ):  # fmt: skip
        with pytest.raises(InputError, match="^here: holds no decision rule"):
            Rule.from_config({KEY: values}, "here")
    assert Rule.from_config({KEY: {}}, "here") == Rule.from_config({KEY: None}, "here") == Rule()


def test_probabilities_of_extreme_logits_have_logarithms():
    assert Rule().calibrate(np.array([[2000.0, 0.0]]), NAMES[:2]).tolist() == [[1.0, 1e-12]]


def test_the_facade_and_the_evaluation_apply_the_rule(calibrated, sample_repo):
    folder, rule = calibrated
    result = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="4-class")
    raw = CheckpointClassifier.load(folder).score(list(load_split(sample_repo, "4-class", "test"))).logits
    assert result["predictions"] == decided(rule, raw).tolist()
    assert result["argmax"]["predictions"] == raw.argmax(1).tolist()
    assert result["argmax"]["metrics"]["macro_f1"] == macro_f1(
        np.array(result["references"]), np.array(result["argmax"]["predictions"])
    )
    np.testing.assert_allclose(
        result["probabilities"], softmax(raw / rule.temperature + added(rule.biases), axis=1), atol=1e-5
    )


def test_two_classes_are_decided_by_the_threshold(calibrated, sample_repo):
    folder, rule = calibrated
    result = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="2-class")
    given = np.array(result["probabilities"])[:, 1]
    sure = np.abs(given - rule.threshold) > 1e-5
    assert (np.array(result["predictions"])[sure] == (given >= rule.threshold)[sure]).all()
    assert {*result["predictions"]} == {0, 1}
    four = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="4-class")
    np.testing.assert_allclose(given, np.array(four["probabilities"])[:, 1:].sum(1), atol=3e-5)


@pytest.mark.parametrize("rule", [Rule(), Rule(threshold=0.2), Rule(1.0, {"intra-sentence": 3.0}, 0.6)])
def test_a_row_and_a_chat_of_its_utterances_are_decided_alike(detector, sample_rows, sample_chats, rule):
    classifier = CheckpointClassifier(detector.classifier.backend, "flatten", rule=rule)
    rows = classifier.classify(sample_rows[:40])
    verdicts = ContradictionDetector(classifier).batch(sample_chats[:40])
    assert [row.label for row in rows] == [verdict.label for verdict in verdicts]
    assert [row.scores for row in rows] == [pytest.approx(verdict.scores, abs=1e-6) for verdict in verdicts]


@pytest.mark.parametrize(
    ("scores", "threshold", "label"),
    [
        ((0.45, 0.1, 0.2, 0.25), 0.5, "history"),  # none is the most probable label, and a contradiction more so
        ((0.55, 0.0, 0.0, 0.45), 0.5, "non-contradiction"),
        ((0.55, 0.0, 0.0, 0.45), 0.45, "history"),
        ((0.2, 0.3, 0.4, 0.1), 0.5, "role-confusion"),
        ((0.2, 0.3, 0.4, 0.1), 0.9, "non-contradiction"),
    ],
)
def test_the_sum_of_the_kinds_decides_and_the_most_probable_kind_names(scores, threshold, label):
    assert decide(dict(zip(NAMES, scores, strict=True)), threshold, CATEGORIES) == label
    assert decide({"unrelated": 0.2, "opinions": 0.5, "attributes": 0.3}, 0.1, ()) == "opinions"


def test_a_view_set_by_the_caller_disables_the_rule(calibrated):
    assert CheckpointClassifier.load(calibrated[0], view="sentence-pair").rule == Rule()
    assert CheckpointClassifier.load(calibrated[0], view="flatten").rule == calibrated[1]


def draw_logits(rows=4000, scale=2.0, seed=0):
    """Logits that are `scale` times too confident, and labels drawn from the correct probabilities."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, 4)) * 1.5 + np.array([1.5, -1.5, -1.0, 0.5])
    shares = softmax(logits, axis=1)
    references = np.array([generator.choice(4, p=share) for share in shares])
    return logits * scale, references


def test_calibration_undoes_the_overconfidence_and_skew_of_the_logits():
    logits, references = draw_logits(scale=2.0)
    skew = np.array([0.0, 2.0, 1.0, 0.5])
    temperature, biases = fit_calibration(logits + 2.0 * skew, references)
    assert temperature == pytest.approx(2.0, rel=0.08)
    assert biases == pytest.approx(-skew, abs=0.2)


def test_the_bias_of_a_class_without_rows_stays_away_from_its_bound():
    logits, references = draw_logits()
    present = references != 1
    temperature, biases = fit_calibration(logits[present], references[present])
    assert 1 < temperature < 4
    assert -4 < biases[1] < -1


def test_a_rule_raises_macro_f1_by_rare_kinds_and_its_probability_of_a_contradiction_is_calibrated():
    logits, references = draw_logits(rows=8000)
    rule = fit(logits, references, NAMES)
    assert macro_f1(references, decided(rule, logits)) > macro_f1(references, logits.argmax(1)) + 0.02
    assert rule.biases[NON_CONTRADICTION] == 0
    given = 1 - rule.calibrate(logits, NAMES)[:, 0]
    assert rule.biases["intra-sentence"] - rule.biases["history"] > 0.3
    for low in (0.2, 0.4, 0.6, 0.8):
        part = (given >= low - 0.1) & (given < low + 0.1)
        assert (references[part] > 0).mean() == pytest.approx(given[part].mean(), abs=0.04)


def test_kinds_get_biases_in_their_order():
    # The first stage fires slightly on everything. Only shifting it gives the others a chance.
    references = np.repeat([0, 1, 2, 3], 50)
    probabilities = np.full((200, 3), 0.1)
    probabilities[:, 0] = 0.6
    probabilities[references == 1, 0] = 0.9
    probabilities[references == 2, 1] = 0.9
    probabilities[references == 3, 2] = 0.9
    biases, threshold = fit_kinds(logit(probabilities), references, np.max)
    assert biases[1] == biases[2] > biases[0] + 0.4
    called = expit(logit(probabilities) + biases).max(1) >= threshold
    assert called.tolist() == (references > 0).tolist()


@pytest.mark.parametrize(("others", "is_called"), [(30, True), (80, False)])
def test_a_rare_kind_is_named_unless_that_costs_more_macro_f1_of_two_classes(others, is_called):
    # Rows of a rare kind look like some without a contradiction. To name the kind raises the macro-F1 of all labels
    # and lowers that of contradiction or not, by less for 30 of these and by more for 80.
    counts, odds = [200, 100, 20, others], [(-5, -5), (-5, 5), (-0.95, -5), (-0.95, -5)]
    log_odds, references = np.repeat(odds, counts, axis=0), np.repeat([0, 2, 1, 0], counts)
    biases, threshold = fit_kinds(log_odds, references, np.max)
    called = expit(log_odds + biases).max(axis=1) >= threshold
    assert called.tolist() == np.repeat([False, True, is_called, is_called], counts).tolist()


def test_the_threshold_maximises_2_class_macro_f1():
    given = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.6])
    assert 0.3 < fit_threshold(given, given > 0.32) <= 0.35
    assert fit_threshold(given, given > 0.5) == 0.5  # of equally good thresholds the one nearest to one half


def test_a_curve_counts_recall_and_false_alarms_and_is_empty_on_few_rows():
    generator = np.random.default_rng(0)
    given = generator.random(2000).round(3)
    truth = generator.random(2000) < given
    curve = curve_of(given, truth)
    assert len(curve) == 200
    assert [outcome.threshold for outcome in curve] == sorted((outcome.threshold for outcome in curve), reverse=True)
    for point in curve[::20]:
        called = given >= point.threshold
        assert called.sum() >= 20
        assert point.recall == pytest.approx((called & truth).sum() / truth.sum(), abs=1e-5)
        assert point.false_alarms == pytest.approx(((called & ~truth).sum() + 0.5) / ((~truth).sum() + 1), abs=1e-5)
    for contradictions, others in ((19, 400), (400, 19), (20, 20)):
        truth = np.arange(contradictions + others) < contradictions
        assert bool(curve_of(np.where(truth, 0.9, 0.1), truth)) == (min(contradictions, others) == 20)
    assert with_curve(Rule(), np.array([0.1, 0.9]), np.array([False, False])) == Rule()


def test_a_stage_is_not_calibrated_on_rows_without_its_category(random_model, sample_repo, tmp_path):
    folder = shutil.copytree(random_model("4-class"), tmp_path / "history")
    with_new_head(folder, STAGES["history"]).save_pretrained(folder)
    save_rule(folder, Rule(0.7))
    with pytest.raises(InputError, match="predicts other, history; the data has"):
        fit_rule(folder, load_split(sample_repo, "2-class", "validation"))
    assert load_rule(folder) == Rule(0.7)
    rows = load_split(sample_repo, "4-class", "validation")
    names = [rows.features["label"].names[label] for label in rows["label"]]
    assert fit_rule(folder, rows).prior == round(names.count("history") / len(names), 5)


def test_with_several_kinds_the_threshold_is_the_one_that_was_chosen_with_their_biases(random_model, rows):
    model, names = load_classifier(random_model("4-class")), [rows.features["label"].names[n] for n in rows["label"]]
    rule = model.fit_rule(rows.to_list(), names)
    fitted = fit(model.score(rows.to_list()).logits, class_ids(names, model.labels, "it"), model.labels)
    assert (rule.threshold, rule.biases) == (fitted.threshold, fitted.biases)


def test_an_external_checkpoint_gets_a_view_and_a_rule(run, random_model, sample_repo, sample_rows, tmp_path):
    folder = shutil.copytree(random_model("4-class"), tmp_path / "model")
    config = read_json(folder / "config.json")
    del config["cdconv_view"]
    write_json(folder / "config.json", config)
    before = (folder / "config.json").read_bytes()
    copy, arguments = tmp_path / "copy", ("calibrate", folder, "--data", sample_repo, "--out", tmp_path / "copy")
    for view, message in (
        ([], ", ".join(VIEWS)),
        (["--view", "all"], "there is no view 'all'"),
        (["--view", "nli"], "the data has no premise, hypothesis"),
    ):
        code, _, err = run(*arguments, *view)
        assert (code, copy.exists(), message in err) == (2, False, True)
    assert run(*arguments, "--view", "sentence-pair")[0] == 0
    assert (folder / "config.json").read_bytes() == before
    assert CheckpointClassifier.load(copy).columns == ("b1", "b2")
    code, out, _ = run("calibrate", folder, "--data", sample_repo, "--view", "sentence-pair")
    assert code == 0 and "temperature" in out
    assert load_rule(folder) == load_rule(copy)
    classifier = CheckpointClassifier.load(folder)
    assert (classifier.columns, classifier.rule == Rule()) == (("b1", "b2"), False)
    code, _, err = run("calibrate", folder, "--data", sample_repo, "--view", "flatten")
    assert code == 2 and err.endswith("leave the view out\n")


def test_a_rule_is_not_fitted_on_rows_that_the_model_has_seen(run, quick_model, sample_repo, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "quick")
    before = (folder / CONFIG).read_bytes()
    code, _, err = run("calibrate", folder, "--data", sample_repo, "--config", "4-class-grouped")
    assert code == 2
    assert err.startswith(f"cdconv: {folder} was trained on 4-class, ") and err.count("\n") == 1
    assert "validation split of 4-class-grouped" in err
    assert (folder / CONFIG).read_bytes() == before


# The settings of an operator, measured on the test split.


def test_the_curve_equals_scikit_learns():
    rng = np.random.default_rng(5)
    given = rng.random(200).round(2)
    truth = rng.random(200) < given
    curve = threshold_curve(truth, given)
    points = {point.threshold: point for point in curve}
    precision, recall, thresholds = precision_recall_curve(truth, given)
    assert sorted(points) == thresholds.tolist()
    for index, threshold in enumerate(thresholds.tolist()):
        assert points[threshold].precision == pytest.approx(precision[index])
        assert points[threshold].recall == pytest.approx(recall[index])
    for best in operating_points(curve, truth.mean()):
        assert best["reached"] and best["precision"] >= best["wanted"]
        assert best["recall"] == pytest.approx(max(recall[precision >= best["wanted"]]))


# At 0.6: precision 0.8 at a prior of one half; at 0.4: 2/3.
RULE = Rule(temperature=2.0, prior=0.5, curve=(Point(0.6, 0.4, 0.1), Point(0.4, 0.8, 0.4)))
# The probability of a contradiction, and whether it is one.
CASES = [(0.9, 1), (0.7, 1), (0.65, 0), (0.5, 1), (0.45, 0), (0.41, 0), (0.3, 1), (0.1, 0), (0.05, 0)]
RESULT = {
    "name": "case",
    "config": "2-class",
    "split": "test",
    "rule": RULE.without_curve(),
    "references": [label for _, label in CASES],
    "probabilities": [[1 - probability, probability] for probability, _ in CASES],
}


def test_outcomes_counted_by_hand():
    half, half_reached, eighty, ninety, *in_use = outcomes(RESULT, RULE)
    assert [outcome.setting for outcome in (half, half_reached, eighty, ninety)] == [
        "0.5", "precision>=0.5", "precision>=0.8", "precision>=0.9",
    ]  # fmt: skip
    assert (half.threshold, half.hits, half.contradictions, half.alarms, half.others) == (0.5, 3, 4, 1, 5)
    assert (half_reached.threshold, half_reached.hits, half_reached.alarms) == (0.4, 3, 3)
    assert (eighty.threshold, eighty.hits, eighty.alarms) == (0.6, 2, 1)
    assert eighty.precision == pytest.approx(0.5 * 2 / 4 / (0.5 * 2 / 4 + 0.5 * 1 / 5))
    assert ninety.threshold is None
    # At a prior of 3 %, a probability of 0.9 has odds of 9 · 3/97. It is below one half, so nothing is called.
    assert (in_use[0].threshold, in_use[0].hits, in_use[0].alarms) == (0.5, 0, 0)
    assert np.isnan(in_use[0].precision)
    assert [outcome.threshold for outcome in in_use[1:]] == [None] * 3
    (low, high), (few, many) = wilson(2, 4), wilson(1, 5)
    assert eighty.precision_interval == pytest.approx((low / (low + many), high / (high + few)))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"split": "validation"}, RULE),  # on which the settings were chosen
        ({"config": "persona"}, RULE),
        ({}, Rule(temperature=2.0, prior=0.5)),  # without a curve
        ({"rule": Rule().without_curve()}, RULE),  # another rule
        ({"references": [1] * len(CASES)}, RULE),
    ],
)
def test_only_evaluations_by_the_rule_on_test_rows_of_both_kinds_have_outcomes(change, rule):
    assert has_outcomes(RESULT, RULE) and not has_outcomes({**RESULT, **change}, rule)


def test_outcomes_match_the_verdicts_of_the_facade(quick_model, sample_repo):
    detector = ContradictionDetector.from_pretrained(quick_model)
    result = evaluate(detector, data=sample_repo, config="4-class")
    rows = load_split(sample_repo, "4-class", "test")
    chats = [chat(*texts_of(row)) for row in rows]
    truth = [rows.features["label"].int2str(label) != NON_CONTRADICTION for label in rows["label"]]
    reached = 0
    for outcome in outcomes(result, detector.classifier.rule):
        if outcome.threshold is None:
            continue
        reached += 1
        verdicts = detector.with_settings(threshold=outcome.setting, prior=outcome.prior).batch(chats)
        called = [bool(verdict.contradiction) for verdict in verdicts]
        assert outcome.hits == sum(a and b for a, b in zip(called, truth, strict=True))
        assert outcome.alarms == sum(a and not b for a, b in zip(called, truth, strict=True))
    assert reached


def test_a_card_names_the_rule_and_lists_the_settings(run, quick_model, sample_repo, tmp_path):
    model, kept = shutil.copytree(quick_model, tmp_path / "quick"), tmp_path / "kept"
    run("evaluate", model, "--data", sample_repo, "--json", kept / "quick.json")
    run("card", model, "--results", kept)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert card.count("\n| precision>=0.8 |") == 2
    assert "earlier decision rule" not in card
    save_rule(model, Rule())
    run("card", model, "--results", kept)
    card = (model / "README.md").read_text(encoding="utf-8")
    assert "earlier decision rule" in card
    assert "precision>=0.5 |" not in card
