"""Decision rules: how they are stored and applied."""

import numpy as np
import pytest
from helpers.rules import NAMES, added, decided, macro_f1
from helpers.runs import CURVE
from scipy.special import softmax

from contradiction.data.splits import load_split
from contradiction.decision import KEY, Point, Rule, decide
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.labels import CATEGORIES
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.loading import load_rule, save_rule
from contradiction.training.initialize import initialize_model
from contradiction.training.recipe import Recipe


def test_precision_at_a_prior_follows_bayes_rule():
    # 0.4 * 0.5 / (0.4 * 0.5 + 0.6 * 0.05), and at 3 %: 0.03 * 0.5 / (0.03 * 0.5 + 0.97 * 0.05)
    assert CURVE[1].precision(0.4) == pytest.approx(0.2 / 0.23)
    assert CURVE[1].precision(0.03) == pytest.approx(0.015 / 0.0635)
    assert Point(1.0, 0.0, 0.0).precision(0.4) == 0, "not NaN, which never compares equal"


def test_a_rule_is_stored_in_the_config_of_the_model(tmp_path):
    file = tmp_path / "config.json"
    write_json(file, {"cdconv_view": "flatten"})
    assert Rule.load(file) == Rule.load(tmp_path / "none") == Rule()
    rule = Rule(1.5, {"history": 0.2}, 0.45, 0.4, CURVE)
    rule.save(file)
    assert Rule.load(file) == rule
    assert read_json(file)["cdconv_view"] == "flatten"


def test_a_new_rule_is_in_the_manifest(tmp_path):
    write_json(tmp_path / "config.json", {})
    manifest.write(tmp_path)
    manifest.check(tmp_path)
    save_rule(tmp_path, Rule(temperature=3.0))
    manifest.check(tmp_path)
    assert load_rule(tmp_path) == Rule(temperature=3.0)


@pytest.mark.parametrize("wrong", [{"heat": 3}, {"temperature": 0, "curve": []}, {"prior": 7, "curve": []}, "warm"])
def test_a_damaged_rule_raises_one_line_that_names_the_file(tmp_path, wrong):
    write_json(tmp_path / "config.json", {KEY: wrong})
    with pytest.raises(InputError, match=r"config\.json: .*cdconv calibrate"):
        Rule.load(tmp_path / "config.json")


def test_training_saves_a_rule_with_the_weights(quick_model, sample_repo):
    rule = load_rule(quick_model)
    labels = load_split(sample_repo, "4-class", "validation")["label"]
    assert rule.prior == pytest.approx(np.mean([label != 0 for label in labels]), abs=1e-4)
    assert rule.curve
    assert rule.temperature != 1


def test_a_model_started_from_a_detector_has_no_rule_until_one_is_fitted(quick_model):
    assert load_rule(quick_model) != Rule()
    recipe = Recipe.of(name="next", view="flatten", config="4-class", backbone=str(quick_model))
    model, _ = initialize_model(recipe)
    assert KEY not in model.config.to_dict()


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


def test_labels_without_contradictions_are_decided_by_the_most_probable():
    assert decide({"unrelated": 0.2, "opinions": 0.5, "attributes": 0.3}, 0.1, ()) == "opinions"


def test_a_view_set_by_the_caller_disables_the_rule(calibrated):
    assert CheckpointClassifier.load(calibrated[0], view="sentence-pair").rule == Rule()
    assert CheckpointClassifier.load(calibrated[0], view="flatten").rule == calibrated[1]
