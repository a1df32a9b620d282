"""The hierarchical method: three stages are trained, saved as one folder, and applied in order."""

import pytest
from helpers import processes
from helpers.runs import FAST, TINY_TOML, train
from transformers import pipeline

from contradiction import runs
from contradiction.base_detector import Case
from contradiction.conversation import Turn
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS, windows
from contradiction.io.files import read_json
from contradiction.labels import OTHER, STAGES
from contradiction.methods.base import Prediction
from contradiction.methods.composite import HierarchicalClassifier
from contradiction.training import record
from contradiction.training.loop import train_checkpoint
from contradiction.training.recipe import Recipe, load_recipe

QUICK = Recipe.of(name="quick", method="hierarchical", epochs=2, **FAST)


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
    for content, words in (("[]", "holds a list"), ('{"stages": [1]}', "must be")):
        (tmp_path / "stages.json").write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=f"stages.json: {words}"):
            ContradictionDetector.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="leave the view out"):
        ContradictionDetector.from_pretrained(folder, view="flatten")
    history = ContradictionDetector.from_pretrained(folder / "history")
    with pytest.raises(InputError, match="history, history; .*each category"):
        HierarchicalClassifier([history.classifier, history.classifier])
