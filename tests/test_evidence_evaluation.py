"""cdconv evaluate --evidence: what is judged, what is scored, and what is reported as unavailable."""

import json
import shutil
from collections import Counter

import pytest
from helpers.corpora import sharing_crossed

from contradiction.data import build
from contradiction.data.splits import fingerprint, load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import checklists, results
from contradiction.evaluation.evidence import false_alarms, score_evidence, turns_of
from contradiction.evaluation.figures import RESAMPLES
from contradiction.io.files import write_json
from contradiction.labels import CHECKLISTS, CONFIGS, HISTORY, LABELS, NON_CONTRADICTION, task_of

NAMES = LABELS["4-class"]


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    """The data repo of the sample with checklists."""
    with sharing_crossed():
        return build.build(build.find("sample"), tmp_path_factory.mktemp("data") / "cdconv", with_checklists=True)


@pytest.fixture(scope="module")
def result(detector, repo):
    return checklists.evaluate(detector, data=repo, limit=100)


def chats(repo, config, ids):
    return [row for row in load_split(repo, config, "test") if row["id"] in ids]


@pytest.mark.parametrize("windowing", ["windowed", "structured", "unstructured"])
def test_the_saved_evaluation_holds_the_verdict_on_each_chat(result, detector, repo, windowing):
    rows = chats(repo, "4-class-a2t", set(result["ids"]))
    verdicts = detector.with_settings(windowing=windowing).batch([row["messages"] for row in rows])
    assert [row["id"] for row in rows] == result["ids"]
    assert result["predictions"][windowing] == [NAMES.index(verdict.label) for verdict in verdicts]
    assert result["predicted_evidence"][windowing] == [list(verdict.evidence) for verdict in verdicts]
    assert any(result["predicted_evidence"][windowing]) == (windowing != "unstructured")


def test_the_figures_follow_from_the_saved_evaluation_and_count_turns(result):
    references = [NAMES[label] for label in result["references"]]
    for windowing, figures in result["metrics"].items():
        predictions = [NAMES[label] for label in result["predictions"][windowing]]
        named = result["predicted_evidence"][windowing]
        more = {"ids": result["ids"], "groups": result["inserted"], "bootstrap": RESAMPLES}
        by_turn = score_evidence(references, predictions, turns_of(result["evidence"]), turns_of(named), **more)
        assert figures == by_turn
        assert result["by_message"][windowing] == score_evidence(
            references, predictions, result["evidence"], named, **more
        )
    assert list(result["metrics"]["windowed"]["groups"]) == ["1", "2", "3", "4", "5"]


def test_the_user_message_of_the_right_turn_counts_as_found(detector, repo):
    eager = detector.with_settings(threshold=0.0, categories=[HISTORY])  # so that all rows name evidence
    evaluation = checklists.evaluate(eager, data=repo, windowings=["structured"])
    assert all(evaluation["predicted_evidence"]["structured"])
    assert {tuple(evidence) for evidence in evaluation["evidence"]} == {(), (0,), (1,)}
    by_turn, by_message = (evaluation[kind]["structured"]["evidence"] for kind in ("metrics", "by_message"))
    assert by_turn["recall"] > by_message["recall"]


def test_false_alarms_are_counted_on_the_same_conversations(result, detector, repo):
    alarms = result["false_alarms"]
    rows = chats(repo, "4-class-rct", set(result["ids"]))
    assert [row["id"] for row in rows] == alarms["ids"]
    for windowing, figures in alarms["metrics"].items():
        predictions = [
            verdict.label
            for verdict in detector.with_settings(windowing=windowing).batch([row["messages"] for row in rows])
        ]
        forms = [("removed", "replaced")[row["form"]] for row in rows]
        assert figures == false_alarms([NAMES[row["origin"]] for row in rows], predictions, forms)
    assert alarms["metrics"]["windowed"]["removed"]["history"] == 0, "nothing is left to contradict"


def test_a_limit_takes_all_versions_of_the_same_conversations_each_time(result, detector, repo):
    assert Counter(result["ids"]).most_common()[0][1] == Counter(result["ids"]).most_common()[-1][1] == 5
    assert len(result["ids"]) == 100
    fewer = checklists.evaluate(detector, data=repo, limit=54, windowings=["structured"])
    assert len(fewer["ids"]) == 50
    assert set(fewer["ids"]) < set(result["ids"])
    assert fewer["data"] == fingerprint(load_split(repo, "4-class-a2t", "test")), (
        "the fingerprint is that of the split, not of the limited rows"
    )
    with pytest.raises(InputError, match="limit 4; one conversation has 5 rows"):
        checklists.evaluate(detector, data=repo, limit=4)


def test_the_progress_bar_knows_the_number_of_windows(detector, repo):
    totals, done = [], []
    checklists.evaluate(detector, data=repo, limit=20, on_start=totals.append, on_batch=done.append)
    assert totals == [sum(done)]


def test_a_reading_that_a_detector_does_not_support_is_skipped_with_one_line(random_model, repo):
    pair = ContradictionDetector.from_pretrained(random_model("4-class"), view="sentence-pair")
    evaluation = checklists.evaluate(pair, data=repo, limit=20)
    assert list(evaluation["metrics"]) == ["windowed", "structured"]
    (left_out, *_), (reason,) = checklists.notes(evaluation), evaluation["left_out"].values()
    assert left_out == f"unstructured windows left out: {reason}"
    assert "needs u1 among them" in reason
    with pytest.raises(InputError, match="needs u1 among them"):
        checklists.evaluate(pair, data=repo, windowings=["unstructured"])


def test_replies_that_a_detector_cannot_judge_are_reported(random_model, repo):
    """Its view does not read u2, so it cannot judge a reply with no turn before it."""
    pair = ContradictionDetector.from_pretrained(random_model("4-class"), view="sentence-pair")
    evaluation = checklists.evaluate(pair, data=repo, limit=20, windowings=["windowed"])
    removed = evaluation["false_alarms"]["forms"].count("removed")
    assert evaluation["false_alarms"]["unjudged"] == {"windowed": removed}
    note = f"windowed, turn gone: {removed} rows without a verdict count as no contradiction"
    assert note in checklists.notes(evaluation)


def test_a_two_class_detector_shows_two_classes(random_model, repo):
    evaluation = checklists.evaluate(
        ContradictionDetector.from_pretrained(random_model("2-class")), data=repo, limit=50
    )
    windowed, structured, _, _ = checklists.tables(evaluation)
    assert windowed.header == ("inserted", "rows", "2-class")
    assert structured.header == ("inserted", "rows", "precision", "recall", "F1", "2-class", "2-class strict")
    none, history = NAMES.index(NON_CONTRADICTION), NAMES.index(HISTORY)
    assert {label for labels in evaluation["predictions"].values() for label in labels} == {none, history}


def test_a_detector_that_reads_no_earlier_reply_is_rejected(random_model, repo):
    detector = ContradictionDetector.from_pretrained(random_model("4-class"), view="reply-only")
    with pytest.raises(InputError, match="reads b2; evidence needs b1"):
        checklists.evaluate(detector, data=repo)


def test_a_detector_with_other_labels_is_rejected(random_model, repo):
    with pytest.raises(InputError, match="evidence needs all contradictions"):
        checklists.evaluate(ContradictionDetector.from_pretrained(random_model("persona")), data=repo)


def test_the_command_prints_and_saves_the_figures(run, random_model, repo, tmp_path):
    kept = tmp_path / "kept.json"
    arguments = ["--data", repo, "--evidence", "--windowing", "structured", "--limit", 50, "--json", kept]
    code, out, err = run("evaluate", random_model("4-class"), *arguments)
    result = json.loads(kept.read_text(encoding="utf-8"))
    f1 = result["metrics"]["structured"]["evidence"]["f1"]
    assert (code, err) == (0, "")
    assert f"{100 * f1:.1f} (" in next(line for line in out.splitlines() if line.split()[:1] == ["all"])
    assert "n = 50 (10 conversations of " in out
    assert "evidence is counted by turn" in out
    assert list(result["metrics"]) == ["structured"]


def test_incompatible_options_print_one_line(run, random_model, repo, sample_repo):
    model = random_model("4-class")
    for arguments, message in [
        (["--data", sample_repo, "--evidence"], "`cdconv data build --checklists`"),
        (["--data", repo, "--config", "4-class-a2t"], "holds chats of several turns; `cdconv evaluate --evidence`"),
        (["--data", repo, "--evidence", "--config", "4-class-rct"], "is scored on 4-class-a2t, 4-class-a2t-grouped"),
        (["--data", repo, "--evidence", "--split", "validation"], "split 'validation': the checklists"),
        (["--data", repo, "--evidence", "--settings"], "cannot be used together"),
        (["--data", repo, "--evidence", "--windowing", "all-at-once"], "windowing 'all-at-once'; allowed are windowed"),
        (["--data", repo, "--limit", "10"], "need --evidence"),
        (["--data", repo, "--results", repo], "--results needs --settings"),
    ]:
        code, out, err = run("evaluate", model, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


def test_checklists_can_be_evaluated_on_but_not_trained_on(repo):
    assert {task_of(config) for config in CHECKLISTS} == {"4-class"}
    assert not set(CHECKLISTS) & set(CONFIGS)
    assert len(load_split(repo, "4-class-rct-grouped", "test")) > 0
    with pytest.raises(InputError, match="split 'train'; config '4-class-a2t' has only test"):
        load_split(repo, "4-class-a2t", "train")


def test_a_saved_evidence_evaluation_does_not_affect_cards_and_pages(result, quick_model, tmp_path):
    from contradiction.training import record
    from paper.results_page import results_page

    model = shutil.copytree(quick_model, tmp_path / "quick")
    write_json(tmp_path / "kept" / "evidence.json", {**result, "run": record.read(model)})
    assert results.evaluations_of(model, tmp_path / "kept") == []
    assert "4-class-a2t" not in results_page(tmp_path / "kept")
