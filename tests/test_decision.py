"""Decision rules: how they are chosen, kept and applied, and what an operator's settings make of the probabilities."""

import shutil

import numpy as np
import pytest
from chats import chat
from scipy.special import softmax
from transformers import BertForSequenceClassification, set_seed

from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.inference.torch_backend import TorchBackend
from contradiction.inputs.views import VIEWS
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import CONFIG
from contradiction.labels import CATEGORIES, LABELS, NON_CONTRADICTION, STAGES
from contradiction.methods.calibration import (
    calibrate,
    curve_of,
    fit,
    fit_calibration,
    fit_cut,
    fit_stages,
    with_curve,
)
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.decision import KEY, LEGACY_FILE, Point, Rule
from contradiction.methods.loading import load_rule, save_rule
from contradiction.settings import Settings
from evaluate_metric.evaluate_metric import score

NAMES = LABELS["4-class"]
CURVE = (Point(0.9, 0.2, 0.01), Point(0.7, 0.5, 0.05), Point(0.4, 0.8, 0.3))
RULE = Rule(prior=0.4, curve=CURVE)


def drawn(rows=4000, scale=2.0, seed=0):
    """Logits that are `scale` times too sure, and labels drawn from the probabilities they should have given."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(rows, 4)) * 1.5 + np.array([1.5, -1.5, -1.0, 0.5])
    shares = softmax(logits, axis=1)
    references = np.array([generator.choice(4, p=each) for each in shares])
    return logits * scale, references


def added(values):
    return np.array([values.get(name, 0.0) for name in NAMES])


def decided(rule, logits):
    return (logits / rule.temperature + added(rule.biases) + added(rule.offsets)).argmax(1)


def macro_f1(references, predictions):
    return score(references.tolist(), predictions.tolist(), "4-class")["macro_f1"]


def test_the_calibration_undoes_how_much_too_sure_and_how_skewed_the_logits_are():
    logits, references = drawn(scale=2.0)
    skew = np.array([0.0, 2.0, 1.0, 0.5])
    temperature, biases = fit_calibration(logits + 2.0 * skew, references)
    assert temperature == pytest.approx(2.0, rel=0.08)
    assert biases == pytest.approx(-skew, abs=0.2)


def test_a_class_without_rows_keeps_a_finite_bias():
    logits, references = drawn()
    seen = references != 1
    temperature, biases = fit_calibration(logits[seen], references[seen])
    assert 1 < temperature < 4
    assert -8 <= biases[1] < -1


def test_offsets_raise_macro_f1_where_rare_classes_are_never_called():
    logits, references = drawn()
    rule = fit(logits, references, NAMES)
    plain = macro_f1(references, logits.argmax(1))
    with_rule = macro_f1(references, decided(rule, logits))
    assert with_rule > plain + 0.02
    assert rule.offsets[NON_CONTRADICTION] == 0


def test_offsets_that_bring_nothing_are_none():
    logits = np.eye(4)[np.arange(400) % 4] * 9
    assert set(fit(logits, np.arange(400) % 4, NAMES).offsets.values()) == {0}


def test_stages_get_offsets_by_their_order():
    # The first stage fires on everything a little; only moving it lets the others be heard.
    references = np.repeat([0, 1, 2, 3], 50)
    probabilities = np.full((200, 3), 0.1)
    probabilities[:, 0] = 0.6
    probabilities[references == 1, 0] = 0.9
    probabilities[references == 2, 1] = 0.9
    probabilities[references == 3, 2] = 0.9
    rule = fit_stages(probabilities, references)
    assert rule.offsets[CATEGORIES[0]] < -0.4
    assert [rule.offsets[name] for name in CATEGORIES[1:]] == [0, 0]


def test_the_cut_is_where_2_class_macro_f1_is_best():
    given = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.6])
    assert 0.3 < fit_cut(given, given > 0.32) <= 0.35
    assert fit_cut(given, given > 0.5) == 0.5  # of equals the nearest to one half


def test_a_curve_counts_recall_and_false_alarms_and_promises_nothing_on_a_handful():
    generator = np.random.default_rng(0)
    given = generator.random(2000).round(3)
    truth = generator.random(2000) < given
    curve = curve_of(given, truth)
    assert len(curve) == 200
    assert [each.threshold for each in curve] == sorted((each.threshold for each in curve), reverse=True)
    for point in curve[::20]:
        called = given >= point.threshold
        assert called.sum() >= 20
        assert point.recall == pytest.approx((called & truth).sum() / truth.sum(), abs=1e-5)
        assert point.false_alarms == pytest.approx(((called & ~truth).sum() + 0.5) / ((~truth).sum() + 1), abs=1e-5)


def test_rows_of_one_kind_show_nothing():
    assert with_curve(Rule(), np.array([0.1, 0.9]), np.array([False, False])) == Rule()


def test_precision_at_a_prior_is_bayes():
    # 0.4 * 0.5 / (0.4 * 0.5 + 0.6 * 0.05), and at 3 %: 0.03 * 0.5 / (0.03 * 0.5 + 0.97 * 0.05)
    assert CURVE[1].precision(0.4) == pytest.approx(0.2 / 0.23)
    assert CURVE[1].precision(0.03) == pytest.approx(0.015 / 0.0635)
    assert Point(1.0, 0.0, 0.0).precision(0.4) == 0, "and not something that compares with nothing"


def test_a_precision_asked_for_is_reached_with_the_most_recall():
    assert Settings(threshold="precision>=0.8").threshold_for(RULE) == 0.7
    assert Settings(threshold=" precision >= .6 ").threshold_for(RULE) == 0.4
    # 0.03 * 0.2 / (0.03 * 0.2 + 0.97 * 0.01) = 0.38 is the best at 3 %.
    with pytest.raises(InputError, match=r"precision 0\.5 was not reached at a prior of 0\.03; the best was 0\.38"):
        Settings(threshold="precision>=0.5", prior=0.03).threshold_for(RULE)
    limit = Settings(threshold="precision>=0.3", prior=0.03).threshold_for(RULE)
    # The threshold moves with the probabilities: the same replies are called.
    assert limit == pytest.approx(0.9 * (0.03 / 0.4) / (0.9 * (0.03 / 0.4) + 0.1 * (0.97 / 0.6)))


def test_a_precision_cannot_be_asked_of_some_categories_only():
    with pytest.raises(InputError, match="precision was measured with all categories"):
        Settings(threshold="precision>=0.8", categories=["history"]).threshold_for(RULE)


def test_a_prior_moves_the_odds_by_the_ratio_of_the_priors_odds():
    scores = dict(zip(NAMES, (0.4, 0.1, 0.2, 0.3), strict=True))
    after = Settings(prior=0.03).correct(scores, "4-class", RULE)
    assert sum(after.values()) == pytest.approx(1)
    before_odds, after_odds = 0.6 / 0.4, sum(after[name] for name in CATEGORIES) / after[NON_CONTRADICTION]
    assert after_odds / before_odds == pytest.approx((0.03 / 0.97) / (0.4 / 0.6))
    assert after["history"] / after["intra-sentence"] == pytest.approx(3)
    assert Settings(prior=0.4).correct(scores, "4-class", RULE) == pytest.approx(scores)


def test_a_prior_at_which_nothing_would_be_called_is_refused():
    assert Settings(prior=0.3).threshold_for(RULE) == 0.5
    with pytest.raises(InputError, match="at a prior of 0.03 hardly any validation reply would reach one half"):
        Settings(prior=0.03).threshold_for(RULE)
    assert Settings(prior=0.03, threshold=0.1).threshold_for(RULE) == 0.1


def test_sure_probabilities_stay_sure_at_any_prior():
    for sure in ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)):
        scores = dict(zip(NAMES, sure, strict=True))
        assert Settings(prior=0.03).correct(scores, "4-class", RULE) == pytest.approx(scores)


def test_a_rule_is_kept_in_the_file_that_describes_the_model(tmp_path):
    file = tmp_path / "config.json"
    write_json(file, {"cdconv_view": "flatten"})
    assert Rule.load(file) == Rule.load(tmp_path / "none") == Rule()
    rule = Rule(1.5, {"history": 0.2}, {"history": -0.4}, 0.45, 0.4, CURVE)
    rule.save(file)
    assert Rule.load(file) == rule
    assert read_json(file)["cdconv_view"] == "flatten"


def test_a_rule_in_a_file_of_its_own_is_read_until_another_is_saved(tmp_path):
    file, legacy = tmp_path / "config.json", tmp_path / LEGACY_FILE
    write_json(file, {})
    write_json(legacy, {"temperature": 2.0, "biases": {}, "offsets": {}, "cut": 0.4, "prior": 0.3, "curve": []})
    assert Rule.load(file) == Rule(temperature=2.0, cut=0.4, prior=0.3)
    Rule(temperature=3.0).save(file)
    assert Rule.load(file) == Rule(temperature=3.0)
    assert not legacy.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"heat": 3},
        {"temperature": 0, "curve": []},
        {"biases": [1], "curve": []},
        {"prior": 7, "curve": []},
        "warm",
    ],
)
def test_a_damaged_rule_is_one_line_that_names_the_file(tmp_path, wrong):
    write_json(tmp_path / "config.json", {KEY: wrong})
    with pytest.raises(InputError, match=r"config\.json: .*cdconv calibrate"):
        Rule.load(tmp_path / "config.json")


@pytest.fixture(scope="module")
def calibrated(random_model, tmp_path_factory):
    """A model folder with a rule that changes labels."""
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    shutil.copytree(random_model("4-class"), folder)
    rule = Rule(0.7, {"history": -0.3}, {"role-confusion": 0.2}, 0.77, 0.4, CURVE)
    save_rule(folder, rule)
    return folder, rule


def test_training_leaves_a_rule_beside_the_weights(quick_model, sample_repo):
    rule = load_rule(quick_model)
    labels = load_split(sample_repo, "4-class", "validation")["label"]
    assert rule.prior == pytest.approx(np.mean([label != 0 for label in labels]), abs=1e-4)
    assert rule.curve
    assert rule.temperature != 1


def test_the_facade_and_the_evaluation_decide_by_the_rule(calibrated, sample_repo):
    folder, rule = calibrated
    result = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="4-class")
    raw = CheckpointClassifier.load(folder).logits(list(load_split(sample_repo, "4-class", "test")))
    assert result["predictions"] == decided(rule, raw).tolist()
    assert result["argmax"]["predictions"] == raw.argmax(1).tolist()
    assert result["argmax"]["metrics"]["macro_f1"] == macro_f1(
        np.array(result["references"]), np.array(result["argmax"]["predictions"])
    )
    np.testing.assert_allclose(
        result["probabilities"], softmax(raw / rule.temperature + added(rule.biases), axis=1), atol=1e-5
    )


def test_two_classes_are_decided_by_the_cut(calibrated, sample_repo):
    folder, rule = calibrated
    result = evaluate(ContradictionDetector.from_pretrained(folder), data=sample_repo, config="2-class")
    given = np.array(result["probabilities"])[:, 1]
    sure = np.abs(given - rule.cut) > 1e-5
    assert (np.array(result["predictions"])[sure] == (given >= rule.cut)[sure]).all()


def test_an_operator_threshold_replaces_the_rule(calibrated, sample_rows):
    folder, rule = calibrated
    texts = [[row[column] for column in ("u1", "b1", "u2", "b2")] for row in sample_rows[:60]]
    chats = [[{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(each)] for each in texts]
    plain = ContradictionDetector.from_pretrained(folder).batch(chats)
    middle = float(np.median([1 - each.scores[NON_CONTRADICTION] for each in plain]))
    detector = ContradictionDetector.from_pretrained(folder, threshold=middle)
    verdicts = detector.batch(chats)
    for verdict in verdicts:
        assert verdict.is_contradiction == (1 - verdict.scores[NON_CONTRADICTION] >= middle)
    assert len({verdict.is_contradiction for verdict in verdicts}) == 2
    corrected = detector.with_settings(threshold=None, prior=0.3).batch(chats)
    for before, after in zip(verdicts, corrected, strict=True):
        assert after.scores[NON_CONTRADICTION] > before.scores[NON_CONTRADICTION]


def test_a_threshold_leaves_the_category_to_the_rule(detector, sample_rows):
    chats = [chat(*(row[column] for column in ("u1", "b1", "u2", "b2"))) for row in sample_rows[:20]]
    scores = [each.scores for each in detector.batch(chats)]
    assert {max(CATEGORIES, key=each.__getitem__) for each in scores} != {"role-confusion"}
    classifier = CheckpointClassifier(
        detector.classifier.backend, "flatten", rule=Rule(offsets={"role-confusion": 30.0})
    )
    called = ContradictionDetector(classifier, Settings(threshold=0.0)).batch(chats)
    assert {each.label for each in called} == {"role-confusion"}
    allowed = ContradictionDetector(classifier, Settings(threshold=0.0, categories=("history",))).batch(chats)
    assert {each.label for each in allowed} == {"history"}


def test_below_a_threshold_the_most_probable_of_the_other_labels_is_given(detector, random_model, sample_rows):
    model = stand_in(random_model("4-class"), LABELS["nli"])
    model.classifier.bias.data[LABELS["nli"].index("neutral")] = 100
    classifier = CheckpointClassifier(TorchBackend(model, detector.classifier.backend.tokenizer), "flatten")
    chats = [chat(*(row[column] for column in ("u1", "b1", "u2", "b2"))) for row in sample_rows[:10]]
    verdicts = ContradictionDetector(classifier, Settings(threshold=1.0)).batch(chats)
    assert {each.label for each in verdicts} == {"neutral"}


def stand_in(folder, labels):
    """The tiny model with other labels."""
    set_seed(5)
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=len(labels), ignore_mismatched_sizes=True)
    model.config.id2label = dict(enumerate(labels))
    return model


def test_an_opening_reply_is_decided_without_the_offsets_of_whole_conversations(detector, sample_rows):
    chats = [chat(row["u1"], row["b1"]) for row in sample_rows[:20]]
    offsets = Rule(offsets={"intra-sentence": 30.0})
    classifier = CheckpointClassifier(detector.classifier.backend, "flatten", rule=offsets)
    verdicts = ContradictionDetector(classifier).batch(chats)
    assert [each.label for each in verdicts] == [max(each.scores, key=each.scores.__getitem__) for each in verdicts]
    assert "non-contradiction" in {each.label for each in verdicts}
    whole = [chat(*(row[column] for column in ("u1", "b1", "u2", "b2"))) for row in sample_rows[:20]]
    assert {each.label for each in ContradictionDetector(classifier).batch(whole)} == {"intra-sentence"}


def test_a_view_of_ones_own_leaves_the_rule_out(calibrated):
    assert CheckpointClassifier.load(calibrated[0], view="sentence-pair").rule == Rule()
    assert CheckpointClassifier.load(calibrated[0], view="flatten").rule == calibrated[1]


@pytest.mark.parametrize("config", ["2-class", "persona"])
def test_a_stage_is_not_calibrated_on_rows_that_do_not_tell_its_category(random_model, sample_repo, config, tmp_path):
    folder = shutil.copytree(random_model("4-class"), tmp_path / "history")
    stand_in(folder, STAGES["history"]).save_pretrained(folder)
    save_rule(folder, Rule(0.7))
    with pytest.raises(InputError, match="predicts other, history; the data has"):
        calibrate(folder, load_split(sample_repo, config, "validation"))
    assert load_rule(folder) == Rule(0.7)
    assert calibrate(folder, load_split(sample_repo, "4-class", "validation")).prior


def test_a_checkpoint_from_elsewhere_gets_its_view_and_its_rule(run, random_model, sample_repo, sample_rows, tmp_path):
    folder = shutil.copytree(random_model("4-class"), tmp_path / "model")
    config = read_json(folder / "config.json")
    del config["cdconv_view"]
    write_json(folder / "config.json", config)
    code, _, err = run("calibrate", folder, "--data", sample_repo)
    assert (code, err.startswith(f"cdconv: {folder}: "), ", ".join(VIEWS) in err) == (2, True, True)
    before = (folder / "config.json").read_bytes()
    for view, said in (("all", "there is no view 'all'"), ("nli", "the data has no premise, hypothesis")):
        code, _, err = run("calibrate", folder, "--data", sample_repo, "--view", view)
        assert (code, said in err) == (2, True)
    assert (folder / "config.json").read_bytes() == before
    code, out, _ = run("calibrate", folder, "--data", sample_repo, "--view", "sentence-pair")
    assert code == 0 and "temperature" in out
    found = CheckpointClassifier.load(folder)
    assert (found.columns, found.rule == Rule()) == (("b1", "b2"), False)
    code, _, err = run("calibrate", folder, "--data", sample_repo, "--view", "flatten")
    assert (code, err) == (2, f"cdconv: {folder}/config.json: reads sentence-pair, not flatten; leave the view out\n")


def test_a_rule_is_not_chosen_on_rows_that_the_model_has_seen(run, quick_model, sample_repo, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "quick")
    before = (folder / CONFIG).read_bytes()
    code, _, err = run("calibrate", folder, "--data", sample_repo, "--config", "4-class-grouped")
    assert code == 2
    assert err == (
        f"cdconv: {folder} was trained on 4-class, whose training split holds rows of the validation split of "
        "4-class-grouped: a rule chosen on these would be too sure; take rows that it has not seen\n"
    )
    assert (folder / CONFIG).read_bytes() == before


def test_a_rule_is_not_chosen_on_other_labels(random_model, sample_repo, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(random_model("2-class"), folder)
    with pytest.raises(InputError, match="predicts non-contradiction, contradiction; the data has"):
        calibrate(folder, load_split(sample_repo, "4-class", "validation"))
    assert load_rule(folder) == Rule()
