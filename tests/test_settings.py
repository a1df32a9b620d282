"""The effect of operator settings on the probabilities."""

from dataclasses import replace

import pytest
from helpers.chats import chat
from helpers.models import with_new_head
from helpers.runs import CURVE

from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inference.torch_backend import TorchBackend
from contradiction.labels import CATEGORIES, HISTORY, INTRA, LABELS, NON_CONTRADICTION
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.settings import Settings

NAMES = LABELS["4-class"]


RULE = Rule(prior=0.4, curve=CURVE)


def test_a_requested_precision_is_reached_with_the_highest_recall():
    assert Settings(threshold="precision>=0.8").threshold_for(RULE) == 0.7
    assert Settings(threshold=" precision >= .6 ").threshold_for(RULE) == 0.4
    # 0.03 * 0.2 / (0.03 * 0.2 + 0.97 * 0.01) = 0.38 is the best at 3 %.
    with pytest.raises(InputError, match=r"precision 0\.5 .*prior of 0\.03.* best was 0\.38"):
        Settings(threshold="precision>=0.5", prior=0.03).threshold_for(RULE)
    limit = Settings(threshold="precision>=0.3", prior=0.03).threshold_for(RULE)
    # The threshold moves with the probabilities, so the same replies are called.
    assert limit == pytest.approx(0.9 * (0.03 / 0.4) / (0.9 * (0.03 / 0.4) + 0.1 * (0.97 / 0.6)))
    with pytest.raises(InputError, match="all categories"):
        Settings(threshold="precision>=0.8", categories=["history"]).threshold_for(RULE)


def test_a_prior_multiplies_the_odds_by_the_ratio_of_prior_odds():
    scores = dict(zip(NAMES, (0.4, 0.1, 0.2, 0.3), strict=True))
    after = Settings(prior=0.03).correct(scores, "4-class", RULE)
    assert sum(after.values()) == pytest.approx(1)
    before_odds, after_odds = 0.6 / 0.4, sum(after[name] for name in CATEGORIES) / after[NON_CONTRADICTION]
    assert after_odds / before_odds == pytest.approx((0.03 / 0.97) / (0.4 / 0.6))
    assert after["history"] / after["intra-sentence"] == pytest.approx(3)
    assert Settings(prior=0.4).correct(scores, "4-class", RULE) == pytest.approx(scores)
    for sure in ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)):
        scores = dict(zip(NAMES, sure, strict=True))
        assert Settings(prior=0.03).correct(scores, "4-class", RULE) == pytest.approx(scores)


def test_a_prior_at_which_nothing_would_be_called_is_rejected():
    assert Settings(prior=0.3).threshold_for(RULE) == 0.5
    assert Settings(prior=0.03).threshold_for(replace(RULE, curve=CURVE[1:])) == 0.5  # more may reach it than it shows
    for prior in (0.03, 0.0001, 1e-320):  # what the error recommends can be reached
        for kinds in (CATEGORIES, (HISTORY,)):
            with pytest.raises(InputError, match=f"prior of {prior} ") as error:
                Settings(prior=prior, categories=kinds).threshold_for(RULE)
            named = str(error.value).split()[-1]
            assert ("precision>=" in named) == (kinds == CATEGORIES)
            threshold = Settings(prior=prior, categories=kinds, threshold=named).threshold_for(RULE)
            assert threshold <= Settings(prior=prior).at_prior(RULE.curve[0].threshold, RULE)
    assert Settings(prior=0.03, threshold=0.1).threshold_for(RULE) == 0.1


@pytest.mark.parametrize("prior", [0.03, 0.6])
def test_a_prior_is_that_of_all_contradictions_whichever_count(calibrated, sample_chats, prior):
    detector = ContradictionDetector.from_pretrained(calibrated[0], prior=prior, threshold=0.5)
    for kind in CATEGORIES:
        for verdict in detector.with_settings(categories=[kind]).batch(sample_chats[:20]):
            assert verdict.probability == pytest.approx(verdict.scores[kind], rel=1e-6)


def test_the_kind_is_the_most_probable_requested_one(detector, sample_chats):
    chats = sample_chats[:20]
    called = detector.with_settings(threshold=0.0).batch(chats)
    assert [verdict.kind for verdict in called] == [
        max(CATEGORIES, key=verdict.scores.__getitem__) for verdict in called
    ]
    assert len({verdict.kind for verdict in called}) > 1, "the test needs other labels"
    allowed = detector.with_settings(threshold=0.0, categories=[HISTORY]).batch(chats)
    assert {verdict.kind for verdict in allowed} == {HISTORY}


def test_below_a_threshold_the_most_probable_other_label_is_given(detector, random_model, sample_chats):
    model = with_new_head(random_model("4-class"), LABELS["nli"])
    model.classifier.bias.data[LABELS["nli"].index("neutral")] = 100
    classifier = CheckpointClassifier(TorchBackend(model, detector.classifier.backend.tokenizer), "flatten")
    verdicts = ContradictionDetector(classifier, Settings(threshold=1.0)).batch(sample_chats[:10])
    assert {verdict.label for verdict in verdicts} == {"neutral"}


def test_the_threshold_is_compared_with_the_probability(detector, two_class, long_chat):
    for judge in (detector, two_class, detector.with_settings(categories=[HISTORY])):
        probability = judge(long_chat).probability
        assert judge.with_settings(threshold=probability)(long_chat).contradiction
        assert not judge.with_settings(threshold=probability + 1e-6)(long_chat).contradiction
    verdict = detector(long_chat)
    assert verdict.probability == pytest.approx(1 - verdict.scores[NON_CONTRADICTION])
    assert detector(chat("在吗", "？！")).probability is None


def test_categories_are_a_set(two_class, detector):
    given = [HISTORY, *reversed(CATEGORIES)]
    assert two_class.with_settings(categories=given).settings == two_class.settings
    assert detector.with_settings(categories=[HISTORY, INTRA]).settings.categories == (INTRA, HISTORY)
    with pytest.raises(InputError, match="categories .*history"):
        two_class.with_settings(categories=[HISTORY])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"windowing": "whole"}, "windowing 'whole'"),
        ({"windowing": {"text": 10**5000}}, "windowing an object; allowed are"),
        ({"threshold": 1.5}, "threshold 1.5"),
        ({"threshold": "precision>80"}, "threshold 'precision>80'"),
        ({"threshold": "precision>=0"}, "a precision is above 0"),
        ({"threshold": "precision>=0.8"}, "cdconv calibrate"),
        ({"prior": 0.03}, "calibrated probabilities"),
        ({"categories": ["histories"]}, "category 'histories'"),
        ({"categories": "history"}, "categories is 'history'"),
        ({"prior": 0}, "prior 0; it must be a fraction between 0 and 1"),
        ({"categories": []}, "categories is empty"),
        ({"max_turns": "3"}, "max_turns '3'"),
        ({"max_turns": 0}, "max_turns 0"),
        ({"treshold": 0.5}, "setting 'treshold'; allowed are threshold, prior, categories, windowing, max_turns; did "
         "you mean threshold?"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_rejected(detector, settings, message):
    with pytest.raises(InputError) as error:
        detector.with_settings(**settings)
    assert message in str(error.value)


def test_a_model_that_reads_two_replies_cannot_read_unstructured(random_model):
    classifier = CheckpointClassifier.load(random_model("4-class"), view="sentence-pair")
    with pytest.raises(InputError, match="needs u1"):
        ContradictionDetector(classifier).with_settings(windowing="unstructured")
    verdict = ContradictionDetector(classifier)(chat("你好", "你好呀"))
    assert (verdict.label, verdict.checked) == (None, False)
