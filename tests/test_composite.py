"""Methods of several models: the stages of the hierarchical method, and the members of an ensemble."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers import processes
from helpers.chats import chat
from helpers.runs import FAST, TINY_TOML, train, with_options
from scipy.special import log_softmax, softmax
from transformers import pipeline

from contradiction import cli, runs
from contradiction.base_detector import Case
from contradiction.conversation import Turn
from contradiction.data.splits import load_split, of_bot
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.evaluation.model_card import model_card
from contradiction.inputs.views import VIEWS, windows
from contradiction.io.files import read_json, write_json
from contradiction.labels import OTHER, STAGES
from contradiction.methods.base import Prediction
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.composite import EnsembleClassifier, HierarchicalClassifier
from contradiction.methods.loading import load_rule, name_with_digest, save_rule
from contradiction.runs import ensemble
from contradiction.training import record
from contradiction.training.loop import train_checkpoint
from contradiction.training.recipe import Recipe, load_recipe

QUICK = Recipe.of(name="quick", method="hierarchical", epochs=2, train_fraction=0.3, **FAST)


@pytest.fixture(scope="module")
def folder(sample_repo, tmp_path_factory):
    return train(QUICK, data=sample_repo, out=tmp_path_factory.mktemp("models") / "hierarchy")


def test_progress_counts_each_row_once_over_all_stages(folder):
    progress = []
    rows = [{"u1": "甲", "b1": "乙", "u2": character, "b2": "丁"} for character in "子丑寅卯辰"]
    HierarchicalClassifier.load(folder).predict(rows, batch_size=2, on_batch=progress.append)
    assert sum(progress) == 5 and len(progress) == 9
    assert sum(progress[:3]) == 1


class Stage:
    """A stage that gives every row one probability."""

    columns, chinese_only = VIEWS["history"], True

    def __init__(self, task, probability):
        self.task, self.probability = task, probability

    def has_token_for(self, text):
        return True

    def predict(self, rows, **options):
        fired = self.task if self.probability > 0.5 else OTHER
        return [Prediction({self.task: self.probability}, fired) for _ in rows]


def plain(*probabilities):
    """A hierarchical classifier without calibration whose stages give these probabilities."""
    return HierarchicalClassifier([Stage(*each) for each in zip(STAGES, probabilities, strict=True)])


ROW = {"u1": "甲", "b1": "乙", "u2": "丙", "b2": "丁"}


def test_the_most_probable_stage_names_a_row_and_a_verdict_and_the_first_one_is_the_papers():
    classifier = plain(0.6, 0.1, 0.9)
    [row] = classifier.classify([ROW])
    assert (row.label, row.argmax) == ("history", "intra-sentence")
    turns = [Turn(f"u{place}", f"b{place}", (2 * place,), (2 * place + 1,)) for place in range(2)]
    case = Case(turns, 1, windows(turns, 1))
    assert ContradictionDetector(classifier).verdict(case, classifier.predict([ROW])).kind == "history"


def test_windows_categories_and_facts_are_judged_by_the_most_probable_stage():
    def detector(history, intra=0.1):
        return ContradictionDetector(plain(intra, 0.1, history))

    turns = [Turn(f"u{place}", f"b{place}", (2 * place,), (2 * place + 1,)) for place in range(3)]
    far, near = (detector(history).classifier.predict([ROW])[0] for history in (0.95, 0.1))
    verdict = detector(0.1).verdict(Case(turns, 2, windows(turns, 2)), [far, near])
    assert (verdict.label, verdict.evidence, verdict.probability) == ("history", (1,), pytest.approx(0.95))
    only = detector(0.7, intra=0.6).with_settings(categories=("history",), threshold=0.5)
    verdict = only.verdict(Case(turns[:2], 1, windows(turns, 1)), only.classifier.predict([ROW]))
    assert (verdict.label, verdict.probability) == ("history", pytest.approx(0.7))
    assert detector(0.95).check(["我养猫。"], "我没有猫。", "你养猫吗？").probability == pytest.approx(0.95)


def test_only_the_stage_of_the_reply_judges_an_opening():
    [one] = plain(0.6, 0.8, 0.9).predict([{**ROW, "u1": "", "b1": ""}])
    assert one.scores == pytest.approx(
        {"non-contradiction": 0.4, "intra-sentence": 0.6, "role-confusion": 0, "history": 0}
    )


def test_the_folder_contains_a_plain_checkpoint_per_stage(folder):
    assert read_json(folder / "stages.json")["stages"] == list(STAGES)
    for stage, labels in STAGES.items():
        validation = record.read(folder)["stages"][stage]["epochs"][0]["validation"]
        assert (tuple(validation["labels"]), {*validation["per_class"]}) == (labels, {*labels})
        assert validation["per_class"][stage]["support"] < validation["per_class"][OTHER]["support"], "against the rest"
        classify = pipeline("text-classification", model=str(folder / stage), top_k=None)
        scores = classify([{"text": "它叫什么名字？", "text_pair": "我没养过猫呀"}])[0]
        assert sorted(row["label"] for row in scores) == sorted(labels)


@pytest.mark.parametrize(
    ("probabilities", "label"),
    [
        ((0.1, 0.1, 0.1), "non-contradiction"),
        ((0.9, 0.9, 0.9), "intra-sentence"),
        ((0.1, 0.9, 0.9), "role-confusion"),
        ((0.1, 0.1, 0.9), "history"),
        ((0.6, 0.99, 0.99), "intra-sentence"),
    ],
)
def test_the_first_stage_that_fires_is_the_argmax_of_the_paper(probabilities, label):
    assert plain(*probabilities).classify([ROW])[0].argmax == label


def test_categories_share_the_probability_in_proportion_to_their_stages():
    assert plain(0.2, 0.6, 0.2).predict([ROW])[0].scores == pytest.approx(
        {"non-contradiction": 0.4, "intra-sentence": 0.12, "role-confusion": 0.36, "history": 0.12}
    )


def test_a_run_interrupted_between_stages_resumes_with_the_next(folder, sample_repo, tmp_path, monkeypatch):
    done = []

    def stop_at_the_second(run):
        if len(done) == 1:
            raise RuntimeError
        done.append(run.recipe.data.view)
        return train_checkpoint(run)

    monkeypatch.setitem(runs.TRAINERS, "checkpoint", stop_at_the_second)
    out = tmp_path / "hierarchy"
    with pytest.raises(RuntimeError):
        train(QUICK, data=sample_repo, out=out)
    assert not out.exists()
    with pytest.raises(InputError, match="an unfinished run; --resume"):
        train(QUICK, data=sample_repo, out=out)
    monkeypatch.undo()
    train(QUICK, data=sample_repo, out=out, resume=True)
    for stage in STAGES:
        weights = [(model / stage / "model.safetensors").read_bytes() for model in (out, folder)]
        assert weights[0] == weights[1]


def test_two_processes_train_each_stage_also_after_they_were_killed(sample_repo, tmp_path):
    recipe = tmp_path / "stages.toml"
    recipe.write_text(
        'method = "hierarchical"\nconfig = "4-class"\nepochs = 1\nlearning_rate = 3e-3\ndropout = 0.0\n' + TINY_TOML,
        encoding="utf-8",
    )
    one = train(load_recipe(recipe), data=sample_repo, out=tmp_path / "one")
    command = ["train", recipe, "--data", sample_repo, "--out", tmp_path / "two"]
    cut = processes.start_two(*command, "--save-steps", "2")
    work = tmp_path / "two.partial"
    state = work / "model" / "intra-sentence.partial" / "state"
    kept = processes.wait_for(state, *cut)
    for process in cut:
        process.kill()
    stderr = [process.communicate()[1] for process in cut]
    assert kept, stderr
    assert not (work / "model" / "intra-sentence").exists(), "there is nothing left to resume"
    going_on = processes.start_two(*command, "--resume")
    stderr = [process.communicate(timeout=600)[1] for process in going_on]
    assert [process.returncode for process in going_on] == [0, 0], stderr
    single, double = (record.read(folder)["stages"] for folder in (one, tmp_path / "two"))
    for stage in STAGES:
        assert double[stage]["processes"] == 2, "each stage is trained separately"
        losses = [run[stage]["epochs"][0]["train_loss"] for run in (single, double)]
        assert losses[1] == pytest.approx(losses[0], abs=1e-5)


def test_wrong_stages_are_rejected(folder, tmp_path):
    for content, words in (("[]", "holds a list"), ('{"stages": [1]}', "stages.0 is 1; it should be")):
        (tmp_path / "stages.json").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=f"stages.json: {words}"):
            ContradictionDetector.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="leave the view out"):
        ContradictionDetector.from_pretrained(folder, view="flatten")
    history = ContradictionDetector.from_pretrained(folder / "history")
    with pytest.raises(InputError, match="history, history; .*each category"):
        HierarchicalClassifier([history.classifier, history.classifier])


# Ensembles: detectors with the same labels, each with its own view, form one detector.

NAMES = ("flatten", "pair")


@pytest.fixture(scope="module")
def members(quick_model, sample_repo, tmp_path_factory):
    """Two four-class detectors with different views."""
    folder = tmp_path_factory.mktemp("members")
    start = {"backbone": str(quick_model), "config": "4-class", "epochs": 1, "train_fraction": 0.3}
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
    inside = [tmp_path / place / "outer" / "both" for place in ("one", "two")]  # of parts with parts, as in a cascade
    for folder in inside:
        shutil.copytree(both, folder)
        write_json(folder.parent / "ensemble.json", {"members": ["both"]})
    weights = inside[1] / "pair" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert name_with_digest(str(inside[0].parent)) != name_with_digest(str(inside[1].parent))


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
