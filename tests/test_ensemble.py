"""Ensembles: detectors with the same labels, each with its own view, form one detector. Others are rejected."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.chats import chat
from helpers.runs import train, with_options
from scipy.special import log_softmax, softmax
from transformers import pipeline

from contradiction import cli
from contradiction.data.splits import load_split, of_bot
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.model_card import model_card
from contradiction.io.files import read_json, write_json
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.composite import EnsembleClassifier
from contradiction.methods.loading import load_rule, name_with_digest, save_rule
from contradiction.runs import ensemble
from contradiction.training import record
from contradiction.training.recipe import Recipe

NAMES = ("flatten", "pair")


@pytest.fixture(scope="module")
def members(quick_model, sample_repo, tmp_path_factory):
    """Two four-class detectors with different views."""
    folder = tmp_path_factory.mktemp("members")
    start = {"backbone": str(quick_model), "config": "4-class", "epochs": 1}
    return [
        train(Recipe.of(name=name, view=view, seed=seed, **start), data=sample_repo, out=folder / name)
        for name, view, seed in zip(NAMES, ("flatten", "sentence-pair"), (1, 2), strict=True)
    ]


def calibrated(member, rows):
    """The log-probabilities of a member, calibrated by its own rule."""
    biases = [member.rule.biases.get(label, 0.0) for label in member.labels]
    assert member.rule.temperature != 1
    return log_softmax(member.score(rows).logits / member.rule.temperature + biases, axis=1)


@pytest.fixture(scope="module")
def both(members, sample_repo, tmp_path_factory):
    out = tmp_path_factory.mktemp("ensemble") / "both"
    command = ["ensemble", *members, "--out", out, "--data", sample_repo]
    assert not cli.app([*map(str, command)], standalone_mode=False)
    return out


def test_progress_counts_each_row_once_over_all_members(both):
    openings = [{"u1": "", "b1": "", "u2": "你是谁", "b2": "我是小冰"}]
    rows = [{"u1": "甲", "b1": "乙", "u2": "丙", "b2": character} for character in "子丑寅卯"] + openings
    progress = []
    EnsembleClassifier.load(both).predict(rows, batch_size=2, on_batch=progress.append)
    assert sum(progress) == len(rows) and len(progress) == 3 + 2, "the second member does not read the opening"


def test_ensemble_probabilities_are_the_calibrated_mean_log_probabilities(both, members, sample_repo):
    rows = list(load_split(sample_repo, "4-class", "test"))
    one, other = (CheckpointClassifier.load(member) for member in members)
    mean = (calibrated(one, rows) + calibrated(other, rows)) / 2
    detector = ContradictionDetector.from_pretrained(both)
    rule = detector.classifier.rule
    assert rule.curve, "the rule is chosen for the ensemble, on validation"
    biases = [rule.biases.get(name, 0.0) for name in detector.labels]
    expected = softmax(mean / rule.temperature + biases, axis=1)
    result = evaluate(detector, data=sample_repo, config="4-class")
    np.testing.assert_allclose(result["probabilities"], expected, atol=1e-5)
    plain = result.get("argmax", result)["predictions"]
    assert plain == mean.argmax(axis=1).tolist()


def test_members_can_stay_uncalibrated_and_count_in_the_identity_of_the_ensemble(both, members, sample_repo, tmp_path):
    rows = list(load_split(sample_repo, "4-class", "test"))
    plain, copy = (shutil.copytree(both, tmp_path / name / "both") for name in ("plain", "copy"))
    write_json(plain / "ensemble.json", {"members": list(NAMES)})
    logs = [log_softmax(CheckpointClassifier.load(member).score(rows).logits, axis=1) for member in members]
    np.testing.assert_allclose(EnsembleClassifier.load(plain).score(rows).logits, np.mean(logs, axis=0), atol=1e-5)
    names = [name_with_digest(str(folder)) for folder in (both, copy, plain)]
    assert names[0] == names[1] != names[2]
    save_rule(copy / "pair", replace(load_rule(copy / "pair"), temperature=9.0))
    assert name_with_digest(str(copy)) not in names


def test_an_opening_reply_is_judged_by_the_member_that_reads_the_user_message(both, members, sample_rows):
    chats = [chat(row["u1"], row["b1"]) for row in sample_rows[:5]]
    detector = ContradictionDetector.from_pretrained(both)
    window = {"u1": "", "b1": "", "u2": chats[0][0]["content"], "b2": chats[0][1]["content"]}
    alone = calibrated(CheckpointClassifier.load(members[0]), [window])
    np.testing.assert_allclose(detector.classifier.score([window]).logits, alone, atol=1e-6)
    verdicts = detector.batch(chats)
    assert all(verdict.label in ("non-contradiction", "intra-sentence") for verdict in verdicts)
    # A pair of replies gives no information about a reply with none before it.
    pairs = EnsembleClassifier([CheckpointClassifier.load(members[1])] * 2)
    assert {verdict.label for verdict in ContradictionDetector(pairs).batch(chats)} == {None}


def test_each_member_is_a_plain_checkpoint_named_in_the_card_and_the_record(both, members):
    description = read_json(both / "ensemble.json")
    assert (description["members"], description["calibrated"]) == (list(NAMES), True)
    for name in NAMES:
        [scores] = pipeline("text-classification", model=str(both / name))([{"text": "你养猫吗？", "text_pair": "养"}])
        assert scores["label"] in ContradictionDetector.from_pretrained(both).labels
    run = record.read(both)
    assert [member["data"]["view"] for member in run["request"]["ensemble"]] == ["flatten", "sentence-pair"]
    assert run["parameters"] == sum(record.read(member)["parameters"] for member in members)
    card = model_card(both).text
    assert "the mean log-probability of 2 detectors" in card and "`pair`: view sentence-pair, 1 epoch," in card


def test_an_invalid_ensemble_is_rejected(members, both, random_model, sample_repo, tmp_path):
    alone = shutil.copytree(random_model("4-class"), tmp_path / "alone")
    for models, out, words in (
        (members[:1], "out", "at least two model folders"),
        ([members[0], members[0]], "out", "with different names"),
        ([members[0], both], "out", "both: has several checkpoints"),
        ([members[0], alone], "out", "alone: holds no detector"),
        (members, both, "exists already"),
        (members, members[0] / "both", "name a folder outside"),
    ):
        with pytest.raises(InputError, match=words):
            ensemble(models, tmp_path / out, data=sample_repo)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="leave the view out"):
        ContradictionDetector.from_pretrained(both, view="flatten")


def test_the_card_names_the_origins_of_members_and_other_bots_are_rejected(members, sample_repo, tmp_path):
    one, other = (shutil.copytree(member, tmp_path / member.name) for member in members)
    changed = {"flatten": ("a/encoder", ["OCNLI"]), "pair": ("another/encoder", [])}
    for folder in (one, other):
        base, corpora = changed[folder.name]
        write_json(folder / "run.json", record.read(folder) | {"base_model": base, "corpora": corpora})
    card = model_card(ensemble([one, other], tmp_path / "both", data=sample_repo)).text
    for name in ("a/encoder", "another/encoder", "OCNLI"):
        assert f"[{name}](" in card
    run = record.read(other)
    run["request"] = with_options(run["request"], bot="eva")
    write_json(other / "run.json", run)
    with pytest.raises(InputError, match="trained on different data"):
        ensemble([one, other], tmp_path / "out", data=sample_repo)
    run = record.read(one)
    run["request"] = with_options(run["request"], bot="eva")
    write_json(one / "run.json", run)
    eva = ensemble([one, other], tmp_path / "eva", data=sample_repo)
    rule = ContradictionDetector.from_pretrained(eva).classifier.rule
    rows = of_bot(load_split(sample_repo, "4-class", "validation"), "eva")
    clashes = sum(label != rows.features["label"].str2int("non-contradiction") for label in rows["label"])
    assert rule.prior == pytest.approx(clashes / len(rows), abs=1e-5)
