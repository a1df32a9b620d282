"""The evaluation of verdicts on whole labelled chats."""

import json
import shutil

import numpy as np
import pytest
from helpers.chats import chat
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from contradiction.data import labelled
from contradiction.data.splits import SPLITS, load_split
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import chat_calibration, chat_evaluation, results
from contradiction.io.files import read_json, write_json
from contradiction.labels import CATEGORIES, LABELS
from contradiction.methods.loading import save_rule
from contradiction.probing.verdicts import find_accuracy

NONE, HISTORY = "non-contradiction", "history"
NAMES = LABELS["4-class"]


@pytest.fixture(scope="module")
def records(sample_chats):
    """Sixty different labelled chats of six turns; of those labelled history, each second one has evidence."""
    chosen = list({json.dumps(messages): messages for messages in sample_chats}.values())[:180]
    longer = [[*chosen[n], *chosen[n + 60], *chosen[n + 120]] for n in range(60)]
    labels = [(NONE, NONE, HISTORY, "role-confusion", HISTORY, NONE)[n % 6] for n in range(60)]
    return [
        {"id": f"chat {n}", "messages": one, "label": label} | ({"evidence": 1 + 2 * (n % 5)} if n % 6 == 2 else {})
        for n, (one, label) in enumerate(zip(longer, labels, strict=True))
    ]


@pytest.fixture
def file(records, tmp_path):
    return write(tmp_path / "labels.jsonl", records)


def write(path, records):
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")
    return path


def median(detector, chats):
    """The threshold that half of the chats reach."""
    return float(np.median([verdict.probability for verdict in detector.batch(chats)]))


def test_each_whole_chat_counts_once_and_is_judged_as_a_verdict_judges_it(detector, records, file):
    messages = [record["messages"] for record in records]
    detector = detector.with_settings(threshold=median(detector, messages))
    result, verdicts = chat_evaluation.evaluate(detector, file), detector.batch(messages)
    assert [NAMES[label] for label in result["predictions"]] == [verdict.label for verdict in verdicts]
    assert [NAMES[label] for label in result["references"]] == [record["label"] for record in records]
    assert result["chats"] == [f"chat {n}" for n in range(60)] and result["ids"] == list(range(1, 61))
    truth, called = [record["label"] != NONE for record in records], [verdict.contradiction for verdict in verdicts]
    figures = result["contradictions"][result["name"]]
    assert figures["accuracy"] == pytest.approx(accuracy_score(truth, called))
    assert figures["macro_f1"] == pytest.approx(f1_score(truth, called, average="macro"))
    assert figures["precision"] == pytest.approx(precision_score(truth, called))
    assert figures["recall"] == pytest.approx(recall_score(truth, called))
    for key, (low, high) in figures["interval"].items():
        assert low < figures[key] < high
    assert (result["base_rate"], result["unjudged"], result["metrics"]["n"]) == (0.5, 0, 60)
    assert result["metrics"]["two_class"]["macro_f1"] == pytest.approx(figures["macro_f1"])


def test_it_agrees_with_calibration_on_the_same_chats(random_model, detector, records, tmp_path):
    folder = shutil.copytree(random_model("4-class"), tmp_path / "model")
    save_rule(folder, Rule(threshold=median(detector, [record["messages"] for record in records])))
    detector = ContradictionDetector.from_pretrained(folder)
    unreadable = {"messages": chat("hello", "how are you today", "fine", "so am i today my friend"), "label": NONE}
    file = write(tmp_path / "labels.jsonl", [*records, unreadable])
    result = chat_evaluation.evaluate(detector, file)
    calibrated = chat_calibration.calibrate(folder, labelled.read(file))
    assert (len(result["ids"]), result["unjudged"]) == (calibrated.chats, calibrated.unjudged) == (60, 1)
    assert result["contradictions"][result["name"]]["macro_f1"] == pytest.approx(calibrated.f1_before)
    again = chat_evaluation.evaluate(ContradictionDetector.from_pretrained(folder), file)
    assert again["threshold"] == calibrated.rule.threshold
    with pytest.raises(InputError, match="none of its chats can be judged; of the first one, the reply"):
        chat_evaluation.evaluate(detector, write(tmp_path / "english.jsonl", [unreadable]))


def test_history_verdicts_are_compared_with_the_labelled_message(detector, records, file):
    settings = detector.with_settings(threshold=0.0, categories=[HISTORY])
    evidence = chat_evaluation.evaluate(settings, file)["evidence"]
    marked = [record for record in records if "evidence" in record]
    named = [settings(record["messages"]).evidence for record in marked]
    right = sum(record["evidence"] in indices for record, indices in zip(marked, named, strict=True))
    assert 0 < right < len(marked)
    assert evidence == {"labelled": 10, "verdicts": 10, "named": right, "by_chance": pytest.approx(10 / 5)}
    assert chat_evaluation.evaluate(detector.with_settings(threshold=1.0), file)["evidence"]["verdicts"] == 0


def test_the_baselines_are_the_majority_and_the_reply_alone(detector, records, tmp_path):
    # The replies to contradict have words of their own, so the reply alone is enough.
    revealing = [
        {**record, "messages": [*record["messages"][:-1], {"role": "assistant", "content": f"{words}{n}"}]}
        for n, record in enumerate(records)
        for words in ["我从来没有说过" if record["label"] != NONE else "今天天气很好"]
    ]
    few = [record for record in revealing if record["label"] == NONE] + [
        record for record in revealing if record["label"] == HISTORY
    ][:4]
    for chats, reply_only in ((revealing, True), (few, False)):
        figures = chat_evaluation.evaluate(detector, write(tmp_path / "labels.jsonl", chats))["contradictions"]
        share = np.mean([record["label"] != NONE for record in chats])
        majority, *others = [name for name in figures if name != detector.name.rpartition("/")[2]]
        assert figures[majority]["accuracy"] == pytest.approx(max(share, 1 - share))
        assert (figures[majority]["precision"] is None) == (majority == "always non-contradiction")
        assert len(others) == reply_only and all(figures[name]["accuracy"] == 1 for name in others)


def test_labels_or_detectors_without_kinds_are_scored_on_two_classes(detector, two_class, records, file, tmp_path):
    merged = [{**record, "label": "contradiction" if record["label"] != NONE else NONE} for record in records]
    of_labels = chat_evaluation.evaluate(detector, write(tmp_path / "merged.jsonl", merged))
    whole = chat_evaluation.evaluate(detector, file)
    assert of_labels["config"] == "2-class" and of_labels["contradictions"] == whole["contradictions"]
    assert of_labels["evidence"] == whole["evidence"]
    of_detector = chat_evaluation.evaluate(two_class, file)
    verdicts = two_class.batch([record["messages"] for record in records])
    assert (of_detector["config"], of_detector["evidence"]) == ("2-class", None)
    probabilities = [probability for _, probability in of_detector["probabilities"]]
    assert probabilities == pytest.approx([verdict.probability for verdict in verdicts], abs=1e-6)


def test_the_command_shows_the_scores_and_writes_an_evaluation_that_others_read(
    run, calibrated, records, file, tmp_path
):
    folder, rule = calibrated
    written = tmp_path / "result.json"
    code, out, err = run("evaluate", folder, "--data", file, "--json", written, "--settings")
    assert (code, err) == (0, "")
    result = results.read_evaluation(written)
    for shown in ("base rate", "macro-F1", "always", "TF-IDF, reply only", "role-confusion", "a random earlier reply"):
        assert shown in out
    assert f"{100 * result['contradictions']['model']['recall']:.1f} (" in out
    assert "Settings chosen on validation, on 4-class, all labelled chats, n = 60" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.jsonl", "result.json"]
    found = find_accuracy(ContradictionDetector.from_pretrained(folder), written)
    truth = [record["label"] in CATEGORIES for record in records]
    counts = found["counts"]["contradiction"]
    assert (counts["contradictions"], counts["others"]) == (sum(truth), 60 - sum(truth))
    hits = round(result["contradictions"]["model"]["recall"] * sum(truth))
    assert counts["hits"] == hits and found["source"] == f"4-class, {labelled.name_of_file(file)}, all chats, n = 60"
    for option in (("--config", "4-class"), ("--evidence",), ("--results", tmp_path, "--settings")):
        code, _, err = run("evaluate", folder, "--data", file, *option)
        assert code == 2 and f"leave {option[0]} out" in err
    code, _, err = run("evaluate", folder, "--data", file, "--split", "dev")
    assert code == 2 and "split 'dev'; the splits of labelled chats are train, validation, test" in err


def test_a_detector_trained_on_the_file_is_scored_on_the_test_chats_alone(run, quick_model, file, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "own")
    values = read_json(folder / "run.json")
    values["request"]["data_name"] = labelled.name_of_file(file)
    write_json(folder / "run.json", values)
    code, _, err = run("evaluate", folder, "--data", file)
    assert code == 0 and "was trained on a part of these chats; --split test leaves them out" in err
    written = tmp_path / "result.json"
    code, out, err = run("evaluate", folder, "--data", file, "--split", "test", "--json", written)
    assert (code, err) == (0, "") and "test split" in out
    result = read_json(written)
    assert result["leakage"] is None and 0 < len(result["ids"]) < 60


def test_the_splits_of_whole_chats_are_those_of_training(file, records):
    folder, chats = labelled.build(file).folder, labelled.read(file)
    found = {split: [one.id for one in labelled.of_split(chats, file, split)] for split in SPLITS}
    assert sorted(sum(found.values(), [])) == sorted(record["id"] for record in records)
    for split, ids in found.items():
        assert set(load_split(folder, "4-class", split)["chat"]) <= set(ids)
