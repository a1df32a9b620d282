"""Scores on the corpora equal those of scikit-learn or counts by hand, and each command runs on its format."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.chats import write_jsonl
from sklearn.metrics import accuracy_score, f1_score, label_ranking_average_precision_score, roc_auc_score

from contradiction.data.corpora import registry
from contradiction.data.corpora.corpus import Row
from contradiction.errors import InputError
from contradiction.evaluation.corpora import artefacts, claims, nli, selection, structured
from contradiction.evaluation.corpora.report import Request, spread
from contradiction.evaluation.corpora.structured import NgramPairs, model_scorer, pair_row
from contradiction.methods.loading import load_classifier

NLI = ("entailment", "neutral", "contradiction")


def chat(name, replies, label, evidence, bot=None):
    """A chat in which the speaker of the reply has made some statements, each after a question."""
    messages = tuple(
        {"role": role, "content": text} for line in replies for role, text in (("user", "and?"), ("assistant", line))
    )
    return Row(name, label, messages=(*messages, {"role": "user", "content": "so?"}), reply="no", evidence=evidence,
               extra={"bot": bot})  # fmt: skip


def by_text(scores):
    return lambda rows: np.array([scores[row["premise"]] for row in rows])


CHATS = [
    chat("a", ["yes", "maybe"], "contradiction", (1,)),  # found, with its evidence
    chat("b", ["yes", "yes2"], "contradiction", (1,)),  # found, with too much evidence
    chat("c", ["maybe"], "contradiction", (1,)),  # missed
    chat("d", ["maybe"], "non-contradiction", ()),
    chat("e", ["yes"], "non-contradiction", ()),  # a false alarm
    chat("f", [], "non-contradiction", ()),  # the speaker has said nothing
]
SCORER = by_text({"yes": 0.9, "yes2": 0.8, "maybe": 0.3})


def test_label_and_evidence_scores_match_a_manual_count():
    figures = structured.figures(structured.judge(SCORER, CHATS))
    assert (figures["n"], figures["contradictions"], figures["marked"]) == (6, 3, 3)
    assert figures["accuracy"] == pytest.approx(4 / 6)
    assert (figures["precision"], figures["recall"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    # Named evidence: 1 in a; 1 and 3 in b; none in c. Correct: 1 in a and 1 in b.
    assert (figures["evidence_precision"], figures["evidence_recall"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert figures["strict_accuracy"] == pytest.approx(3 / 6)  # a, d, f
    assert figures["auc"] == pytest.approx(roc_auc_score([1, 1, 1, 0, 0, 0], [0.9, 0.9, 0.3, 0.3, 0.9, 0.0]))


def test_a_higher_threshold_calls_fewer(monkeypatch, copies):
    monkeypatch.setattr(
        structured, "baselines", lambda train, characters: {"fixed": lambda rows: np.full(len(rows), 0.7)}
    )
    request = Request(registry.find("decode"), copies / "decode")
    low, high = (structured.evaluate(replace(request, threshold=threshold)).figures for threshold in (0.5, 0.8))
    assert low["fixed/validation"]["recall"] == 1 and high["fixed/validation"]["recall"] == 0


def test_unmarked_evidence_is_not_scored():
    figures = structured.figures(structured.judge(SCORER, [chat("a", ["yes"], "contradiction", None), CHATS[3]]))
    assert (figures["strict_accuracy"], figures["evidence_f1"], figures["marked"]) == (None, None, 0)
    only = structured.figures(structured.judge(SCORER, CHATS[3:]))
    assert (only["auc"], only["recall"], only["strict_accuracy"]) == (None, None, pytest.approx(2 / 3))


def test_a_pair_includes_the_preceding_turns_of_the_other_speaker():
    heard = []
    structured.judge(lambda rows: heard.extend(rows) or np.zeros(len(rows)), CHATS[:1])
    assert heard[0] == pair_row("yes", "no", "and?", "so?")
    assert len(heard) == 2


def test_bots_are_ranked_by_people_and_by_the_scorer():
    rows = [
        chat(f"{bot}{number}", ["yes" if number < called else "maybe"],
             "contradiction" if number < people else "non-contradiction", None, bot)
        for bot, people, called in (("x", 9, 12), ("y", 6, 6), ("z", 3, 3)) for number in range(12)
    ]  # fmt: skip
    few = [chat(f"w{number}", ["yes"], "contradiction", None, "w") for number in range(structured.FEWEST - 1)]
    correlations = structured.by_bot(structured.judge(SCORER, [*rows, *few]))
    assert {bot: figures["people"] for bot, figures in correlations["bots"].items()} == {"x": 0.75, "y": 0.5, "z": 0.25}
    assert correlations["pearson"] == pytest.approx(np.corrcoef([3, 2, 1], [4, 2, 1])[0, 1])
    assert correlations["spearman"] == pytest.approx(1)
    assert structured.by_bot(structured.judge(SCORER, rows[:12]))["pearson"] is None


def test_pair_n_grams_learn_overlap_and_reply_n_grams_cannot():
    words = [f"word{number}" for number in range(8)]
    rows = [pair_row(a, b) for a in words for b in words] * 3
    labels = [row["premise"] == row["hypothesis"] for row in rows]
    both, alone = (NgramPairs(premise=premise).fit(rows, labels) for premise in (True, False))
    assert roc_auc_score(labels, both(rows)) == 1
    assert roc_auc_score(labels, alone(rows)) == pytest.approx(0.5)


def test_nli_figures_equal_scikit_learns():
    draw = np.random.default_rng(0)
    truth, predictions = (draw.choice(NLI, 200) for _ in range(2))
    rows = [Row(str(number), label, extra={"level": "ab"[number % 2]}) for number, label in enumerate(truth)]
    figures = nli.figures(rows, list(predictions), ["level"])
    assert figures["accuracy"] == accuracy_score(truth, predictions)
    assert figures["macro_f1"] == pytest.approx(f1_score(truth, predictions, average="macro"))
    assert figures["two_way"] == accuracy_score(truth == "contradiction", predictions == "contradiction")
    assert figures["parts"]["level"]["a"] == {"n": 100, "accuracy": accuracy_score(truth[::2], predictions[::2])}


def test_two_class_labels_are_scored_on_two_classes():
    three, two = ([Row("1", label), Row("2", "contradiction")] for label in ("neutral", "non-contradiction"))
    for rows, prediction in ((three, "non-contradiction"), (two, "non-contradiction"), (two, "neutral")):
        figures = nli.figures(rows, [prediction, prediction])
        assert (figures["accuracy"], figures["macro_f1"], figures["two_way"]) == (None, None, 0.5)


def test_an_n_gram_associated_with_a_label_is_found():
    texts = ["he never ran"] * 300 + ["he ran"] * 300
    associations = artefacts.associations(texts, ["contradiction"] * 300 + ["neutral"] * 300)
    first = next(association for association in associations if association.label == "contradiction")
    assert first.ngram in ("never", "he never", "never ran")
    # never, he never, never ran, he, ran, he ran
    counts = np.array([[300, 0]] * 3 + [[300, 300]] * 2 + [[0, 300]]) + artefacts.SMOOTHING
    expected = np.log2(counts[0, 0] / counts.sum() / (counts[0].sum() * counts[:, 0].sum() / counts.sum() ** 2))
    assert (first.pmi, first.share) == (pytest.approx(expected), 1.0)
    assert first.lmi > 0 and "never" not in {verdict.ngram for verdict in associations if verdict.label == "neutral"}


def item(name, right):
    message = ({"role": "user", "content": "where is the red house"},)
    return [
        Row(
            f"{name}-{index}",
            "right" if index == right else "wrong",
            messages=message,
            reply=f"it {index}",
            source=name,
        )
        for index in range(4)
    ]


def test_reciprocal_ranks_equal_scikit_learns():
    draw = np.random.default_rng(1)
    rights = draw.integers(4, size=50)
    scores = draw.random((50, 4))
    figures = selection.figures([item(str(n), right) for n, right in enumerate(rights)], scores.tolist())
    assert figures["mrr"] == pytest.approx(label_ranking_average_precision_score(np.eye(4)[rights], scores))
    places = (-scores).argsort(axis=1).argsort(axis=1)[np.arange(50), rights]
    assert (figures["r1"], figures["r2"]) == (pytest.approx((places < 1).mean()), pytest.approx((places < 2).mean()))


def test_tied_replies_share_the_chance_to_be_first():
    figures = selection.figures([item("a", 0)], [[1.0, 1.0, 0.0, 0.0]])
    assert (figures["r1"], figures["r2"], figures["mrr"]) == (0.5, 1.0, 0.75)


def test_a_limit_keeps_sources_complete_and_spreads_over_the_split():
    rows = [row for name in "abcdef" for row in item(name, 0)]
    kept = spread(rows, 8)
    assert [row.source for row in kept] == ["a"] * 4 + ["f"] * 4
    assert spread(rows, None) == rows


def test_a_conversation_or_nli_model_can_score_pairs(random_model):
    rows = [pair_row("养了一只猫", "没养过猫"), pair_row("养了一只猫", "猫很乖", "你养什么", "乖吗")]
    for task in ("4-class", "nli"):
        view = "nli" if task == "nli" else None
        scores = model_scorer(load_classifier(random_model(task), view=view))(rows)
        assert scores.shape == (2,) and 0 < scores.min() <= scores.max() < 1 and scores[0] != scores[1]
    with pytest.raises(InputError, match="tell no contradictions"):
        model_scorer(load_classifier(random_model("persona")))


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Small copies of the formats, with enough rows to fit a model to."""
    folder = tmp_path_factory.mktemp("corpora")
    labelled = [(f"甲{n}吃饭", f"乙{n % 7}{label[:2]}", label) for n in range(40) for label in NLI]
    rows = [{"sentence1": a, "sentence2": b, "label": c, "level": "easy", "genre": "lit"} for a, b, c in labelled]
    write_jsonl(folder / "ocnli" / "train.50k.json", rows)
    write_jsonl(folder / "ocnli" / "dev.json", rows[:30])
    pairs = [
        {"earlier": f"i like tea {n % 5}", "last": ["i hate tea", "fine"][n % 2], "label": 1 - n % 2} for n in range(40)
    ]
    write_jsonl(folder / "decode" / "pairs.train.jsonl", pairs)
    dialogues = [
        {"history": f"<0> {pair['earlier']} <1> ok", "last": f"<0> {pair['last']}", "label": pair["label"]}
        for pair in pairs
    ]
    write_jsonl(folder / "decode" / "dialogues.dev.jsonl", dialogues)
    options = ["f : red .", "f : no .", "f : a house .", "f : tea ."]
    items = [
        {"id": f"dev_{n}", "answers": "ABCD"[n % 4], "article": "m : which house ?", "options": options}
        for n in range(8)
    ]
    write_jsonl(folder / "mutual" / "mutual.dev.jsonl", items)
    names = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
    facts = [
        {"context_id": str(n), "id": str(n), "context": ["hi"], "response": f"fact {n} is {names[n % 3]}",
         "response_label": names[n % 3], "type_label": ["factual", "personal"][n % 2],
         "evidence_list": [["t", "u", f"fact {n}", "0"]]}
        for n in range(24)
    ]  # fmt: skip
    write_jsonl(folder / "dialfact" / "testsmall.jsonl", facts)
    return folder


@pytest.mark.parametrize(
    ("name", "task", "expected"),
    [
        ("decode", "nli", r"n-grams of both +validation +40 +100\.0"),
        ("ocnli", "nli", r"n-grams of both +validation +30 +100\.0"),
        ("mutual", "4-class", r"any order +validation +8 +25\.0 +50\.0 +52\.1"),
        ("dialfact", "nli", r"n-grams of the claim alone +test +24"),
    ],
)
def test_the_command_scores_a_model_beside_the_baselines(run, copies, random_model, tmp_path, name, task, expected):
    view = ["--view", "nli"] if task == "nli" else []
    code, out, err = run(
        "corpora", "evaluate", name, random_model(task), *view, "--folder", copies, "--json", tmp_path / "out.json"
    )
    assert code == 0, err
    assert re.search(expected, out), out
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (written["corpus"], written["config"]) == (name, registry.find(name).config().name)
    assert any(random_model(task).name in key for key in written["figures"])


def test_the_error_for_a_config_that_is_only_trained_on_names_the_others(run, copies):
    code, _, err = run("corpora", "evaluate", "dialfact", "--folder", copies, "--config", "chat-verifiable")
    assert code == 2 and "chat-verifiable" in err and "claims" in err


def test_there_is_no_table_by_bot_if_each_has_few_chats(tmp_path, random_model):
    turns = [{"agent_id": n % 2, "text": "养猫"} for n in range(3)]
    chats = [
        {"record_id": str(n), "turns": turns, "is_contradiction": bool(n), "aggregated_contradiction_indices": [0, 2],
         "auxiliary": {"original_model": "bot"}}
        for n in range(2)
    ]  # fmt: skip
    write_jsonl(tmp_path / "human-bot.jsonl", chats)
    classifier = load_classifier(random_model("4-class"))
    report = structured.evaluate(Request(registry.find("decode"), tmp_path, classifier=classifier))
    [scores] = report.figures.values()
    assert scores["by_bot"]["bots"] == {} and len(report.tables) == 1


def test_a_missing_corpus_prints_one_clear_line(run, tmp_path):
    code, _, err = run("corpora", "evaluate", "decode", "--folder", tmp_path)
    assert code == 2 and "decode_v0.1.zip" in err


def test_a_chat_corpus_without_training_pairs_is_scored_only_by_a_model(run, random_model):
    code, out, err = run("corpora", "evaluate", "crossed", random_model("4-class"), "--split", "test", "--limit", 40)
    assert code == 0, err
    assert re.search(r"4-class +test +(3|4)\d ", out), out  # about 40, because items stay complete
    assert "no baselines" in err


def test_baselines_can_be_omitted(run, copies, random_model, tmp_path):
    model = random_model("nli")
    code, out, err = run("corpora", "evaluate", "ocnli", model, "--no-baselines", "--folder", copies)
    assert code == 0, err
    assert model.name in out and "n-grams" not in out + err
    for name, task, scorers in (("mutual", "4-class", 1), ("dialfact", "nli", 2), ("ocnli", "nli", 1)):
        model, view = random_model(task), ["--view", "nli"] if task == "nli" else []
        options = [*view, "--no-baselines", "--folder", copies, "--json", tmp_path / "out.json"]
        code, _, err = run("corpora", "evaluate", name, model, *options)
        assert code == 0, err
        written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
        assert len(written["figures"]) == scorers and all(model.name in key for key in written["figures"])
    code, _, err = run("corpora", "evaluate", "ocnli", "--no-baselines", "--folder", copies)
    assert (code, "nothing to score" in err) == (2, True)


def test_rerank_is_scored_if_the_model_knows_the_language(tmp_path, english_model, random_model):
    options = ["f : no house .", "f : i have a cat .", "f : 3 !", "f : the dog is old ."]
    item = {"answers": "B", "article": "m : hi . f : i have a dog . m : nice .", "options": options}
    write_jsonl(tmp_path / "mutual.dev.jsonl", [{"id": "dev_1", **item}, {"id": "dev_2", **item}])
    reports = {}
    for model in (english_model, random_model("4-class")):
        classifier = load_classifier(model)
        reports[model.name] = selection.evaluate(Request(registry.find("mutual"), tmp_path, classifier=classifier))
    chinese, english = reports["4-class"], reports["english"]
    assert english.figures["rerank, english/validation"]["n"] == 2
    assert any("2 of 8" in note for note in english.notes)  # the model has no token of a number
    assert not any(key.startswith("rerank") for key in chinese.figures) and "rerank" not in str(chinese.tables)
    [note] = [note for note in chinese.notes if "rerank" in note]
    assert "8 replies" in note


def test_no_baseline_is_fitted_to_the_split_that_is_scored(copies):
    ocnli, decode = registry.find("ocnli"), registry.find("decode")
    for request in (
        Request(ocnli, copies / "ocnli" / "train.50k.json"),
        Request(ocnli, copies / "ocnli", split="train"),
        Request(decode, copies / "decode", "nli-2-class"),
    ):
        report = nli.evaluate(request)
        assert list(report.figures) == ["the most frequent label/train"] and "is scored" in " ".join(report.notes)


def test_a_model_without_nli_labels_cannot_verify_claims(copies, random_model):
    classifier = load_classifier(random_model("4-class"))
    report = claims.evaluate(Request(registry.find("dialfact"), copies / "dialfact", classifier=classifier))
    assert not any(random_model("4-class").name in key for key in report.figures)
    assert any(classifier.name in note for note in report.notes)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_few_claims_give_notes_and_no_traceback(run, copies, limit, caplog):
    code, out, err = run("corpora", "evaluate", "dialfact", "--folder", copies, "--limit", limit)
    assert code == 0, err
    assert re.search(rf"the most frequent +test +{limit} ", out) and "no artefacts" in err
    assert not caplog.records  # bm25s would log each index that it builds


def test_claims_without_passages_give_notes(tmp_path):
    fact = {
        "context_id": "1", "id": "1", "context": ["hi"], "response": "fact", "response_label": "SUPPORTS",
        "type_label": "factual", "evidence_list": [],
    }  # fmt: skip
    write_jsonl(tmp_path / "testsmall.jsonl", [fact])
    report = claims.evaluate(Request(registry.find("dialfact"), tmp_path))
    assert any("no retrieval" in note for note in report.notes)
    assert set(report.figures) == {"verifiable, the most frequent/test", "verification, the most frequent/test"}
