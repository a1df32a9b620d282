"""One evaluation for data repos, corpora, labelled chats and rows in memory: what is judged, counted and shown."""

import json
import re
import shutil

import numpy as np
import pytest
from helpers.chats import chat, write_jsonl
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score, roc_auc_score

from contradiction import evaluate
from contradiction.data import labelled
from contradiction.data.corpora import Row, crossed, pair_texts, read_split
from contradiction.data.splits import SPLITS, load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import judging, results
from contradiction.evaluation.evaluate import score
from contradiction.evaluation.judging import baselines
from contradiction.evaluation.sets import load
from contradiction.evaluation.tables import evaluation_notes as notes
from contradiction.evaluation.tables import evaluation_tables as tables
from contradiction.io.files import read_json, write_json
from contradiction.labels import CATEGORIES, LABELS
from contradiction.methods.loading import load_classifier
from contradiction.probing.run import find_accuracy
from contradiction.training import leakage, record
from contradiction.verdict import Verdict

NAMES = LABELS["4-class"]
NLI = LABELS["nli"]
NONE, HISTORY = "non-contradiction", "history"


def verdict(probability, evidence=()):
    label = HISTORY if probability >= 0.5 else NONE
    return Verdict(label, probability, {}, probability, evidence if label == HISTORY else ())


def test_of_an_item_of_replies_all_are_ranked_or_none(detector):
    def item(name, *replies):
        messages = tuple(chat("养猫吗", "养了", "叫什么"))
        labels = ("right", *["wrong"] * len(replies))
        return [Row(f"{name}-{reply}", label, "", "", messages, reply, source=name)
                for reply, label in zip(replies, labels, strict=False)]  # fmt: skip

    judged, english = item("a", "叫小咪", "没养过"), item("b", "It is called Mimi", "没养过")
    result = evaluate(detector, judged + english)
    assert (result["metrics"]["n"], result["unjudged"]) == (1, 2)
    assert result["ids"] == [row.id for row in judged]
    with pytest.raises(InputError, match="none of the rows can be judged; of the first one, the reply holds no word"):
        evaluate(detector, english)
    for rows, said in ((judged[1:], "of 1 replies, 0 are right"), ([*judged, *judged], "of 4 replies, 2 are right")):
        with pytest.raises(InputError, match=f"source a: {said}"):
            evaluate(detector, rows)


# Crossed chats and contrast pairs


def quadruple(number, turns=1):
    between = [message for turn in range(turns - 1) for message in chat(f"天气{turn}", f"哈哈{turn}")[::-1]]
    chats = [(*chat("养宠物吗", f"{statement}{number}", "周末呢"), *between) for statement in ("养猫", "没养")]
    return crossed.Quadruple(
        f"q{number}", "b", HISTORY, "possession", *chats, f"给猫洗澡{number}", f"没活物{number}", 1
    )


@pytest.fixture
def quadruples():
    return [row for number in range(12) for row in quadruple(number, 1 + number % 3).judged()]


def says_cat(text):
    return "猫" in text


@pytest.mark.parametrize(
    ("judge", "in_order", "both_right", "all_right"),
    [
        (lambda row: says_cat(row.messages[1]["content"]) != says_cat(row.reply), 1, 1, 1),
        (lambda row: says_cat(row.reply), 0.5, 0.5, 0),
        (lambda row: says_cat(row.messages[1]["content"]), 0.5, 0, 0),
    ],
    ids=["compares", "reads only the reply", "reads only the chat"],
)
def test_only_a_detector_that_compares_is_above_chance_on_crossed_chats(
    quadruples, judge, in_order, both_right, all_right
):
    figures = score(quadruples, [verdict(0.9 if judge(row) else 0.1, (1,)) for row in quadruples], "4-class")
    assert (figures["in_order"], figures["both_right"], figures["all_right"]) == (in_order, both_right, all_right)
    assert figures["auc"] == in_order
    if in_order == 1:
        assert figures["evidence_f1"] == figures["strict_accuracy"] == 1


def test_evidence_is_counted_by_turn():
    row = Row(1, HISTORY, messages=tuple(chat("a", "b", "c", "d", "e")), reply="f", evidence=(0,))
    assert score([row, Row(2, NONE)], [verdict(0.9, (1,)), verdict(0)], "4-class")["evidence_f1"] == 1
    assert score([row, Row(2, NONE)], [verdict(0.9, (3,)), verdict(0)], "4-class")["evidence_f1"] == 0
    bot_begins = Row(1, HISTORY, messages=tuple(chat("x", "a", "b", "c"))[1:], reply="f")
    assert bot_begins.turns_of([0, 1, 2]) == {0, 1} and bot_begins.turns_of(None) is None


def test_replies_alone_and_after_another_chat_contradict_nothing():
    chats = [row for item in crossed.read("validation") for row in item.judged()]
    by_chat = {row.context: row.source for row in chats}
    for name in ("alone", "unrelated"):
        rows = read_split(crossed.CORPUS, None, name, "validation").rows
        assert {row.label for row in rows} == {NONE} and len(rows) > 800
        assert all((not row.messages) if name == "alone" else by_chat[row.context] != row.source for row in rows)


def test_crossed_chats_are_scored_by_style_and_a_limit_keeps_items_complete(run, random_model, tmp_path):
    for arguments in (["crossed"], ["--config", "crossed"]):
        code, _, err = run("evaluate", random_model("4-class"), *arguments, "--split", "validation", "--limit", 40,
                           "--baselines", "--json", tmp_path / "it.json")  # fmt: skip
        assert code == 0 and "too high" not in err
        result = read_json(tmp_path / "it.json")
        assert 30 <= result["metrics"]["n"] <= 50 and {"style", "phenomenon"} <= result["parts"].keys()
        assert result["leakage"] is None
        assert result["baselines"]["fewer shared characters"]["pairs"] == result["metrics"]["pairs"]
    code, out, err = run("evaluate", random_model("4-class"), "contrast", "--json", tmp_path / "it.json")
    metrics, parts = (read_json(tmp_path / "it.json")[key] for key in ("metrics", "parts"))
    assert metrics["pairs"] == 84 == sum(part["pairs"] for part in parts["phenomenon"].values())
    assert "in order" in out and "a coin" in out and "By phenomenon" in out
    assert f"{100 * metrics['in_order']:.1f} (" in out
    assert "embedded sample" not in out


def test_a_detector_that_was_trained_on_the_crossed_chats_is_warned_about(run, quick_model, tmp_path):
    model = shutil.copytree(quick_model, tmp_path / "model")
    trained = record.read(model)
    ancestors = [{"config": "4-class", "model": "teacher", "crossed": True}]
    assert leakage.describe_crossed({**trained, "ancestors": ancestors}, "train").endswith("of the crossed chats")
    trained["request"]["recipe"]["augmentation"]["crossed"] = True
    assert leakage.describe_crossed(trained, "validation") is None
    write_json(model / "run.json", trained)
    code, _, err = run("evaluate", model, "crossed-long", "--split", "train", "--limit", 8)
    assert code == 0 and "trained on the training split of the crossed chats: its scores are too high" in err


# Data repos and rows in memory


def test_a_row_of_a_data_set_is_classified_and_all_figures_follow(detector, sample_repo):
    result = evaluate(detector, sample_repo, "4-class")
    rows = load_split(sample_repo, "4-class", "test")
    classified = detector.classify(rows.to_list())
    assert [NAMES[label] for label in result["predictions"]] == [row.label for row in classified]
    truth = [label > 0 for label in rows["label"]]
    given = [1 - row.scores[NONE] for row in classified]
    metrics = result["metrics"]
    assert metrics["macro_f1"] == pytest.approx(f1_score(rows["label"], result["predictions"], average="macro"))
    assert metrics["auc"] == pytest.approx(roc_auc_score(truth, given))
    assert {"in_order", "both_right", "calibration_error"} <= metrics.keys()
    assert "all_right" not in metrics
    half = evaluate(detector, sample_repo, "4-class", limit=48)
    assert 44 <= half["metrics"]["n"] <= 52 and half["data"] != result["data"]


@pytest.mark.parametrize("windowing", ["windowed", "structured", "unstructured"])
def test_a_checklist_holds_the_verdict_on_each_chat(detector, checklists_repo, windowing):
    detector = detector.with_settings(windowing=windowing)
    result = evaluate(detector, checklists_repo, "4-class-a2t", limit=50)
    rows = [row for row in load_split(checklists_repo, "4-class-a2t", "test") if row["id"] in result["ids"]]
    verdicts = detector.batch([row["messages"] for row in rows])
    assert [row["id"] for row in rows] == result["ids"] and len(rows) == 50  # whole conversations, five rows each
    assert [NAMES[label] for label in result["predictions"]] == [verdict.label for verdict in verdicts]
    assert result.get("evidence", [[]] * 50) == [list(verdict.evidence) for verdict in verdicts]
    assert list(result["parts"]["inserted"]) == ["1", "2", "3", "4", "5"]


def test_a_detector_of_two_classes_is_scored_on_two(two_class, checklists_repo):
    assert evaluate(two_class, checklists_repo, "4-class-a2t", limit=20)["task"] == "2-class"
    with pytest.raises(InputError, match="config '4-class' has other labels"):
        evaluate(two_class, checklists_repo, "4-class")


def test_the_baselines_of_conversations_read_the_reply_the_context_or_both(run, sample_repo, tmp_path):
    code, out, err = run("evaluate", "baselines", sample_repo, "--config", "4-class", "--json", tmp_path / "it.json")
    assert code == 0, err
    found = read_json(tmp_path / "it.json")["baselines"]
    assert list(found) == [f"always {NONE}", "TF-IDF, reply only", "TF-IDF, context only", "TF-IDF, all"]
    assert "the rows are the embedded sample and not CDConv" in out
    assert "TF-IDF, all" in out and found["TF-IDF, all"]["macro_f1"] > found[f"always {NONE}"]["macro_f1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--config", "4-clas"),
            "there is no config '4-clas', only 2-class, 4-class, persona, 2-class-grouped, 4-class-grouped, "
            "persona-grouped, crossed, crossed-long, crossed-en; did you mean 4-class?",
        ),
        (("--split", "tset"), "there is no 'tset' split of '4-class', only train, validation, test; did you mean test"),
        (("--config", "crossed", "--split", "tset"), "crossed has no split 'tset' in crossed, only "),
    ],
)
def test_a_mistyped_config_or_split_names_those_of_the_data(run, sample_repo, options, message):
    code, out, err = run("evaluate", "baselines", sample_repo, *options)
    assert (code, out, err.count("\n")) == (2, "", 1) and message in err


# Labelled chats


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
    write_jsonl(tmp_path / "labels.jsonl", records)
    return tmp_path / "labels.jsonl"


def test_each_labelled_chat_counts_once_and_is_judged_as_a_verdict_judges_it(detector, records, file):
    messages = [record["messages"] for record in records]
    middle = float(np.median([verdict.probability for verdict in detector.batch(messages)]))
    detector = detector.with_settings(threshold=middle)
    verdicts = detector.batch(messages)
    for data in (file, records):
        result = evaluate(detector, data)
        assert [NAMES[label] for label in result["predictions"]] == [verdict.label for verdict in verdicts]
        assert [NAMES[label] for label in result["references"]] == [record["label"] for record in records]
    truth, called = [record["label"] != NONE for record in records], [verdict.contradiction for verdict in verdicts]
    figures = result["metrics"]["two_class"]
    assert figures["accuracy"] == pytest.approx(accuracy_score(truth, called))
    contradictions = figures["per_class"]["contradiction"]
    assert contradictions["precision"] == pytest.approx(precision_score(truth, called))
    assert contradictions["recall"] == pytest.approx(recall_score(truth, called))
    assert (result["unjudged"], result["threshold"]) == (0, middle)


def test_settings_are_not_ignored_on_rows_that_the_rule_decides(detector, sample_repo):
    for settings in ({"threshold": 0.9}, {"windowing": "structured"}, {"categories": [HISTORY]}):
        with pytest.raises(InputError, match="4-class: settings are for verdicts on chats"):
            evaluate(detector.with_settings(**settings), sample_repo, "4-class")


def test_chats_that_cannot_be_judged_are_left_out(detector, records):
    english = {"messages": chat("hello", "how are you today", "fine", "so am i today my friend"), "label": NONE}
    result = evaluate(detector, [*records, english])
    assert (len(result["ids"]), result["unjudged"]) == (60, 1)
    assert any("1 rows cannot be judged" in note for note in notes(result))
    with pytest.raises(InputError, match="none of the rows can be judged"):
        evaluate(detector, [english])


def test_a_detectors_own_verdicts_are_no_labels(detector, records, tmp_path):
    judged = [{**record, **detector(record["messages"]).to_record()} for record in records[:2]]
    write_jsonl(tmp_path / "verdicts.jsonl", judged)
    for data in (judged, tmp_path / "verdicts.jsonl"):
        with pytest.raises(InputError, match="1: its label is a detector's verdict"):
            evaluate(detector, data)


def test_the_command_writes_an_evaluation_that_others_read(run, calibrated, records, file, tmp_path):
    folder, _ = calibrated
    written = tmp_path / "result.json"
    code, out, err = run("evaluate", folder, file, "--baselines", "--json", written)
    assert (code, err) == (0, "")
    assert "TF-IDF, reply only" in out and "role-confusion" in out
    result = results.read_evaluation(written)
    found = find_accuracy(ContradictionDetector.from_pretrained(folder), written)
    counts = found["counts"]
    truth = [record["label"] in CATEGORIES for record in records]
    assert (counts["contradictions"], counts["others"]) == (sum(truth), 60 - sum(truth))
    hits = result["metrics"]["two_class"]["per_class"]["contradiction"]["recall"] * sum(truth)
    assert counts["hits"] == round(hits)
    assert found["source"] == f"4-class, {labelled.name_of_file(file)}, all chats, n = 60"
    for options, said in ((["--config", "4-class"], "--config"), (["--split", "dev"], "split 'dev'")):
        code, _, err = run("evaluate", folder, "--data", file, *options)
        assert code == 2 and said in err


def test_a_detector_trained_on_the_file_is_scored_on_the_test_chats_alone(run, quick_model, file, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "own")
    values = read_json(folder / "run.json")
    values["request"]["data_name"] = labelled.name_of_file(file)
    write_json(folder / "run.json", values)
    assert "--split test leaves them out" in run("evaluate", folder, file)[2]
    code, out, err = run("evaluate", folder, file, "--split", "test", "--json", tmp_path / "result.json")
    result = read_json(tmp_path / "result.json")
    assert (code, err, result["leakage"]) == (0, "", None) and "test split" in out and 0 < len(result["ids"]) < 60


def test_the_splits_of_whole_chats_are_those_of_training(file, records):
    folder = labelled.build(file).folder
    found = {split: [row.extra["chat"] for row in load(file, split=split).rows] for split in SPLITS}
    assert sorted(sum(found.values(), [])) == sorted(record["id"] for record in records)
    for split, ids in found.items():
        assert set(load_split(folder, "4-class", split)["chat"]) <= set(ids)


# Corpora of relatives


@pytest.mark.parametrize(
    ("name", "baseline", "figures"),
    [
        ("decode", "n-grams of both texts", {"accuracy": 1}),
        ("ocnli", "n-grams of both texts", {"accuracy": 1, "macro_f1": 1}),
        ("mutual", "any order", {"r1": 0.25, "r2": 0.5, "mrr": pytest.approx(25 / 48)}),
        ("dialfact", "always entailment", {"accuracy": 6 / 16}),
    ],
)
def test_a_corpus_is_read_by_its_name_and_scored_beside_baselines(
    run, larger, random_model, english_model, tmp_path, name, baseline, figures
):
    model, view = (english_model, []) if name == "mutual" else (random_model("nli"), ["--view", "nli"])
    code, out, err = run("evaluate", model, name, "--data", larger / name, *view, "--baselines",
                         "--json", tmp_path / "out.json")  # fmt: skip
    assert code == 0, err
    result = read_json(tmp_path / "out.json")
    found = result["baselines"][baseline]
    assert {key: found[key] for key in figures} == figures
    assert baseline in out and model.name in out
    assert result["split"] == "validation" and result["metrics"]["n"] > 0


def test_the_folder_of_a_corpus_is_recognised_by_its_name(larger, random_model):
    classifier = load_classifier(random_model("nli"), view="nli")
    result = evaluate(classifier, larger / "ocnli", limit=9)
    assert result["config"] == "ocnli, nli" and set(result["metrics"]["per_class"]) == set(NLI)
    assert set(result["parts"]) == {"level"} and result["metrics"]["two_class"]["n"] == result["metrics"]["n"]
    of_chats = evaluate(load_classifier(random_model("4-class")), larger / "ocnli")
    assert of_chats["task"] == "2-class"  # contradiction or not


def test_a_local_copy_is_read_although_a_data_repo_of_the_same_name_lies_here(larger, tmp_path, monkeypatch):
    (tmp_path / "decode").mkdir()
    (tmp_path / "decode" / "README.md").write_text("---\n---\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load("decode", copy=larger / "decode").config == "decode, dialogues"
    with pytest.raises(InputError, match="mine is no corpus"):
        load("mine", copy=larger / "decode")


def test_a_model_of_pairs_compares_the_reply_with_each_earlier_message_of_its_speaker(larger, random_model):
    classifier = load_classifier(random_model("nli"), view="nli")
    result = evaluate(classifier, "decode", copy=larger / "decode")
    assert (result["task"], len(result["ids"])) == ("2-class", 16)
    rows = load("decode", copy=larger / "decode").rows
    pairs = [pair_texts(row.messages[index]["content"], row.reply) for row in rows for index in (0, 2)]
    scores = np.array([row.scores["contradiction"] for row in classifier.classify(pairs)])
    expected = scores.reshape(-1, 2).max(axis=1).tolist()
    assert [row[1] for row in result["probabilities"]] == pytest.approx(expected, abs=1e-6)


def test_a_model_of_whole_chats_without_right_and_wrong_chooses_the_reply_that_contradicts_least(larger, random_model):
    classifier = load_classifier(random_model("2-class"), view="chat")
    result = evaluate(classifier, "mutual", copy=larger / "mutual", limit=12)
    assert result["task"] == "response" and 0 <= result["metrics"]["r1"] <= 1
    assert not {"predictions", "argmax"} & result.keys()


def test_by_its_pairs_a_reply_has_the_highest_probability_and_contradicts_nothing_without_one():
    rows = [Row(1, NONE, messages=tuple(chat("a")), reply="b")]
    rows.append(Row(2, HISTORY, messages=tuple(chat("a", "b", "c", "d", "e")), reply="f"))
    alone, both = judging._by_earlier_messages(rows, [0.2, 0.3], 0.3)
    assert (alone.contradiction, alone.probability, alone.evidence) == (False, 0, ())
    assert (both.contradiction, both.probability, both.evidence) == (True, 0.3, (3,))


def test_shared_characters_are_those_of_the_reply_and_pairs_of_them():
    assert judging._shared("我养猫。", "他养猫，真的") == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert judging._shared("", "他养猫") == 0


def test_no_baseline_is_fitted_to_the_rows_that_it_judges(larger):
    for data, options in (("ocnli", {}), ("decode", {"config": "nli-2-class"})):
        evalset = load(data, copy=larger / data, split="train", **options)
        assert evalset.split == "train" and len(baselines(evalset, evalset.task)) == 1


def test_what_cannot_be_scored_prints_one_clear_line(run, larger, random_model, tmp_path):
    model = random_model("4-class")
    for arguments, said in (
        (["decode", "--data", tmp_path], "decode_v0.1.zip"),
        (["dialfact", "--data", larger / "dialfact", "--config", "claims"], "--config nli or chat-verifiable"),
        (["crossed", "--split", "dev"], "no split 'dev'"),
        ([tmp_path / "none"], "no such file or folder"),
    ):
        code, out, err = run("evaluate", model, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1) and said in err


def test_one_label_gives_macro_f1_of_that_label_and_a_note():
    rows = [Row(n, NONE, messages=tuple(chat("a", "b", "c")), reply=str(n)) for n in range(4)]
    metrics = score(rows, [verdict(0.1)] * 4, "2-class", bootstrap=10)
    assert metrics["macro_f1"] == 1
    result = {"name": "x", "config": "2-class", "split": "all", "metrics": metrics}
    assert any("macro-F1" in note for note in notes(result))
    assert re.search(r"0\.0 \(0\.0–\d+\.\d\) % are called one", " ".join(notes(result)))
    assert [table.rows[0][0] for table in tables(result)] == [NONE, "x"]
