"""The report: intervals that contain the true rates of a scripted bot, version comparisons, the paper table, pages."""

import json
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value, load_dataset
from helpers.bot_server import Endpoint, chance, scripted, serving, true_label

from contradiction.data.splits import write_split
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.evaluate import evaluate
from contradiction.inference.base import Scores
from contradiction.io.files import write_json
from contradiction.labels import LABELS
from contradiction.methods import loading
from contradiction.methods.softmax import SoftmaxClassifier
from contradiction.paths import SHIPPED
from contradiction.probing import pages, report, verdicts
from contradiction.probing.plan import Persona

SENSITIVITY, SPECIFICITY = 0.8, 0.8
FOUR = list(LABELS["4-class"])


class NumbersClassifier(SoftmaxClassifier):
    """Recognises what the scripted bot did, and errs at the rate that the test sets."""

    MARKER = "numbers.json"

    @classmethod
    def load(cls, folder, **options):
        return cls(FOUR, columns=("b1", "b2"), name=str(folder))

    def score(self, rows, *, batch_size=32, on_batch=None):
        logits = np.full((len(rows), len(FOUR)), -5.0)
        for number, row in enumerate(rows):
            label, luck = true_label(row["b1"], row["b2"]), chance("judge", row["b1"], row["b2"])
            if label == "non-contradiction" and luck > SPECIFICITY:
                label = "history"
            elif label != "non-contradiction" and luck > SENSITIVITY:
                label = "non-contradiction"
            logits[number, FOUR.index(label)] = 5.0
        return Scores(logits, truncations=[None] * len(rows))


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """The folder of a judge with known error rates, and its evaluation on labelled chats of the same kind of bot."""
    folder = tmp_path_factory.mktemp("judge")
    (folder / NumbersClassifier.MARKER).write_text("{}", encoding="utf-8")
    loading.register(NumbersClassifier)
    rows = []
    for number in range(1200):
        chat = [{"role": "user", "content": f"{number}？"}, {"role": "user", "content": f"再问{number}"}]
        b1, b2 = scripted(chat[:1]), scripted(chat)
        row = {"u1": chat[0]["content"], "b1": b1, "u2": chat[1]["content"], "b2": b2}
        rows.append({"id": number, **row, "label": true_label(b1, b2)})
    text = Value("string")
    columns = {"id": Value("int32"), "u1": text, "b1": text, "u2": text, "b2": text, "label": ClassLabel(names=FOUR)}
    data = Dataset.from_list(rows, features=Features(columns))
    repo = folder / "labelled"
    file = write_split(data, repo / "4-class", "test")
    config = f"- config_name: 4-class\n  data_files:\n  - split: test\n    path: 4-class/{file}\n"
    (repo / "README.md").write_text(f"---\nconfigs:\n{config}---\n", encoding="utf-8")
    result = evaluate(ContradictionDetector.from_pretrained(folder), data=repo, config="4-class")
    write_json(folder / "evaluation.json", result)
    yield folder, folder / "evaluation.json"
    loading.METHODS.remove(NumbersClassifier)


@pytest.fixture(scope="module")
def probed(judge, tmp_path_factory):
    """The folder of a command-line run with the scripted bot, and its stderr."""
    from contradiction.commands.probe import run_probe

    out, (model, evaluation) = tmp_path_factory.mktemp("probe") / "scripted", judge
    with serving(Endpoint()) as endpoint:
        run_probe(
            out, endpoint=endpoint.url, name="scripted", conversations=360, after="2", model=str(model),
            evaluation=evaluation, quiet=True,
        )  # fmt: skip
    return out


def rows_of(folder):
    return [json.loads(line) for line in (folder / "transcript.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_intervals_contain_the_true_rates_of_a_scripted_bot(probed):
    rows, written = rows_of(probed), json.loads((probed / "report.json").read_text(encoding="utf-8"))
    [bot] = written["bots"]
    truth = [true_label(row["b1"], row["b2"]) for row in rows]
    assert bot["accuracy"]["contradiction"]["sensitivity"] == pytest.approx(SENSITIVITY, abs=0.05)
    assert bot["accuracy"]["contradiction"]["specificity"] == pytest.approx(SPECIFICITY, abs=0.02)
    for kind, figures in bot["all"].items():
        true = np.mean([label != "non-contradiction" if kind == "contradiction" else label == kind for label in truth])
        assert figures["low"] <= true <= figures["high"], kind
        assert abs(true - figures["estimate"]) < 0.1
    every = bot["all"]["contradiction"]
    true = np.mean([label != "non-contradiction" for label in truth])
    assert not every["apparent_low"] <= true <= every["apparent_high"]  # the uncorrected verdicts are biased
    hit = 0
    for trigger, figures in bot["by_trigger"].items():
        true = np.mean(
            [label != "non-contradiction" for label, row in zip(truth, rows, strict=True) if row["trigger"] == trigger]
        )
        hit += figures["contradiction"]["low"] <= true <= figures["contradiction"]["high"]
    assert len(bot["by_trigger"]) == 9 and hit >= 8
    consistent = 100 * (1 - np.mean([label != "non-contradiction" for label in truth]))
    assert bot["replies"]["low"] <= consistent <= bot["replies"]["high"]


def test_error_rates_by_another_calibration_are_not_used(judge, monkeypatch):
    folder, file = judge
    result, notes = results.read_evaluation(file), []
    monkeypatch.setattr(results, "evaluations_of", lambda model: [result | {"split": "test"}])
    detector = ContradictionDetector.from_pretrained(folder)
    measured, _ = verdicts.find_accuracy(detector, on_note=notes.append)
    assert measured == verdicts.find_accuracy(detector, file)[0] and not notes
    # Another threshold is the decision of the detector, which these probabilities can be compared with.
    detector.classifier.rule = Rule(threshold=0.9)
    assert verdicts.find_accuracy(ContradictionDetector(detector.classifier), file)
    for rule in (Rule(temperature=2.0), Rule(biases={"history": 1.0})):
        detector.classifier.rule = rule
        fitted = ContradictionDetector(detector.classifier)
        assert verdicts.find_accuracy(fitted, on_note=notes.append) is None
        assert "cdconv evaluate" in notes.pop() and not notes
        with pytest.raises(InputError, match="another calibration.*cdconv evaluate"):
            verdicts.find_accuracy(fitted, file)


def test_the_saved_error_rates_are_those_of_the_shipped_detector():
    assert verdicts.find_accuracy(ContradictionDetector.from_pretrained(SHIPPED), on_note=pytest.fail)


def test_human_labels_replace_the_measured_error_rates(probed, tmp_path, run):
    rows = rows_of(probed)
    lines = [json.dumps({"id": row["id"], "label": true_label(row["b1"], row["b2"])}) for row in rows[::3]]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    code, _, err = run("probe", "report", probed, "--labels", tmp_path / "labels.jsonl", "--out", tmp_path)
    [bot] = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["bots"]
    figures = bot["all"]["contradiction"]
    assert code == 0 and bot["measured_on"] == "120 labelled conversations"
    assert (
        figures["low"]
        <= np.mean([true_label(row["b1"], row["b2"]) != "non-contradiction" for row in rows])
        <= figures["high"]
    )
    for wrong in ('{"id": "short/1", "label": "bad"}', "[1]", '{"bot": "x", "id": "short/1", "label": "history"}'):
        (tmp_path / "labels.jsonl").write_text(f"{lines[0]}\n{wrong}", encoding="utf-8")
        code, _, err = run("probe", "report", probed, "--labels", tmp_path / "labels.jsonl", "--out", tmp_path)
        assert code == 2 and "labels.jsonl:2" in err


def test_each_bot_is_corrected_by_its_own_labels(tmp_path):
    """The detector is always right on one bot, and right on four of five replies of the other. The bots are alike."""
    truth = ["non-contradiction" if number % 4 else "history" for number in range(200)]
    flipped = {"history": "non-contradiction", "non-contradiction": "history"}

    def source(bot, called):
        texts = dict.fromkeys(("u1", "b1", "u2", "b2"), "")
        rows = [{"id": str(n), "trigger": "short", "opening": str(n), "label": label, **texts} for n, label in called]
        return report.Source(bot, rows, detector="judge")

    easy = source("easy", enumerate(truth))
    hard = source("hard", ((n, label if n % 5 else flipped[label]) for n, label in enumerate(truth)))
    lines = [{"id": str(n), "label": label} for n, label in enumerate(truth)]

    def labelled(*kept):
        (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, kept)), encoding="utf-8")
        return report.with_labels([easy, hard], tmp_path / "labels.jsonl")

    built = report.build(labelled(*lines, *({**line, "bot": "hard"} for line in lines)))
    errors = [bot["accuracy"]["contradiction"] for bot in built["bots"]]
    assert errors == [{"sensitivity": right, "specificity": right} for right in (1.0, 0.8)]
    assert [bot["all"]["contradiction"]["estimate"] for bot in built["bots"]] == [0.25, 0.25]
    [comparison] = built["comparisons"]
    assert comparison["all"]["difference"] == 0 and comparison["all"]["low"] < 0 < comparison["all"]["high"]
    assert [figures.measured_on for figures in labelled(*lines)] == ["200 labelled conversations", None]
    with pytest.raises(InputError, match="50 labels of easy .*one kind"):
        labelled(*lines[::4])


def test_label_files_may_have_a_byte_order_mark_and_must_be_utf_8(tmp_path):
    labels = ("history", "non-contradiction")
    rows = [{"id": f"你{label}", "trigger": "short", "opening": label, "label": label} for label in labels]
    source, file = report.Source("bot", rows, detector="judge"), tmp_path / "labels.jsonl"
    text = "\n".join(json.dumps({"id": row["id"], "label": row["label"]}, ensure_ascii=False) for row in rows)
    file.write_text(text, encoding="utf-8-sig")
    assert report.with_labels([source], file)[0].measured_on == "2 labelled conversations"
    file.write_text(text, encoding="gbk")
    with pytest.raises(InputError, match=r"labels\.jsonl: not UTF-8"):
        report.with_labels([source], file)


def test_two_versions_are_compared_on_the_same_probes(probed, judge, tmp_path, run):
    """The better version contradicts only its history. A copy of the first version does not differ from it."""

    def better(messages):
        reply = scripted(messages)
        return reply.replace("，我没养猫", "").replace("？你养了", "？我养了")

    model, evaluation = judge
    with serving(Endpoint(better)) as endpoint:
        code, out, err = run(
            "probe", "run", "--endpoint", endpoint.url, "--name", "better", "--conversations", "360", "--after", "2",
            "--model", model, "--evaluation", evaluation, "--out", tmp_path / "better", "--fail-above", "0.9",
        )  # fmt: skip
    assert code == 0, err
    assert "360 conversations in the transcript" in err
    code, out, err = run(
        "probe", "report", probed, tmp_path / "better", "--out", tmp_path / "both", "--fail-above", "0.01"
    )
    assert code == 1 and "--fail-above allows 1 %" in err
    written = json.loads((tmp_path / "both" / "report.json").read_text(encoding="utf-8"))
    [comparison] = written["comparisons"]
    assert (comparison["first"], comparison["second"], comparison["all"]["n"]) == ("scripted", "better", 360)
    true = np.mean(
        [true_label(row["b1"], row["b2"]) in ("intra-sentence", "role-confusion") for row in rows_of(probed)]
    )
    assert comparison["all"]["low"] <= -true <= comparison["all"]["high"] < 0 and comparison["all"]["p_value"] < 0.001
    same = report.build([*report.read(probed), *report.read(probed)])["comparisons"][0]
    assert (same["all"]["difference"], same["all"]["p_value"], same["second"]) == (0, 1, "scripted (2)")


def test_the_transcript_is_a_data_set_with_the_columns_of_cdconv(probed, tmp_path, run):
    rows = rows_of(probed)
    lines = load_dataset("json", data_files=str(probed / "transcript.jsonl"), split="train", cache_dir=str(tmp_path))
    assert lines["id"] == [row["id"] for row in rows] and lines["label"] == [row["label"] for row in rows]
    data = load_dataset(str(probed / "data"), split="test", cache_dir=str(tmp_path))
    assert {"u1", "b1", "u2", "b2", "label", "trigger", "bot"} <= set(data.column_names)
    assert data.features["label"].names == FOUR and data.features["bot"].names == ["scripted"]
    assert [FOUR[label] for label in data["label"]] == lines["label"]
    code, out, err = run(
        "push", "dataset", "--repo-id", "me/probe", "--folder", probed / "data", "--any-data", "--dry-run"
    )
    assert code == 0, err
    assert "4-class/test" in out + err


def test_the_pages_show_the_same_figures_and_escape_the_messages(probed, tmp_path):
    [source] = report.read(probed)
    rows = [{**row, "b2": f"<script>alert(1)</script>\n\n# 答\n{row['b2']}"} for row in source.rows]
    for row in rows:
        row["messages"][-1]["content"] = row["b2"]
    built = report.build([report.Source("<b>bot</b>", rows, source.detector, source.accuracy, source.measured_on)])
    pages.write(built, tmp_path)
    html, text = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    every = pages.cell(built["bots"][0]["all"]["contradiction"])
    assert every in html and every in text
    assert "<script>" not in html and "<b>bot" not in html and "alert(1)" in html
    assert "http" not in html.replace("http://www.w3.org", "")  # one file, which loads nothing
    assert "\n  # 答\n  " in text and "\n# 答" not in text  # each line of a reply belongs to its item of the list
    badge = (tmp_path / "badge.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(badge).tag.endswith("svg") and every.split()[0] in badge


def test_consistent_replies_have_a_bound_if_the_share_of_replies_is_unknown(probed, tmp_path):
    """A scan calls fewer replies than the expected false alarms of the detector, but it calls the last replies."""
    [source] = report.read(probed)
    rows = [{**row, "replies": 10, "called": 0} for row in source.rows]
    built = report.build([report.Source("scanned", rows, source.detector, source.accuracy, source.measured_on)])
    [bot] = built["bots"]
    assert bot["all"]["contradiction"]["estimate"] and bot["replies"]["judged"] == 10 * len(rows)
    assert bot["replies"]["consistent"] is None and bot["replies"]["low"] > 99
    pages.write(built, tmp_path)
    assert all("at least 99." in (tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))


def test_the_interval_of_consistent_replies_discounts_conversations_that_share_an_opening():
    rows = [
        {"id": str(number), "trigger": "short", "opening": str(number // 10), "u1": "", "b1": "", "u2": "", "b2": "",
         "label": "history" if number < 50 else "non-contradiction"}
        for number in range(150)
    ]  # fmt: skip
    [bot] = report.build([report.Source("bot", rows)])["bots"]
    share_, replies = bot["all"]["contradiction"], bot["replies"]
    assert (replies["low"], replies["high"]) == pytest.approx(
        (100 * (1 - share_["high"]), 100 * (1 - share_["low"])), abs=0.01
    )


@pytest.mark.parametrize("as_turns", [False, True])
def test_a_repeated_question_is_compared_with_its_first_answer_also_with_a_persona(judge, as_turns):
    start = Persona(("我养了9只猫",), as_turns=as_turns).messages()
    texts = {"u1": "你养了几只猫？", "b1": "我养了3只猫", "u2": "你养了几只猫？", "b2": "我养了4只猫"}
    chat = [
        {"role": role, "content": text}
        for role, text in (
            ("user", texts["u1"]), ("assistant", texts["b1"]), ("user", "今天天气不错"), ("assistant", "我养了4只猫"),
            ("user", texts["u2"]), ("assistant", texts["b2"]),
        )
    ]  # fmt: skip
    row = {"id": "repeat-1/a/0", "trigger": "repeat-1", **texts, "messages": [*start, *chat]}
    detector = ContradictionDetector.from_pretrained(judge[0])
    [judged] = verdicts.judge([row], detector)
    alone = detector(chat[:2] + chat[-2:])
    assert (judged["label"], judged["probability"]) == (alone.label, round(alone.probability, 6))
    assert judged["evidence"] == ["我养了3只猫"]


def test_examples_are_contradictions_from_different_openings_with_their_evidence(probed):
    [bot] = json.loads((probed / "report.json").read_text(encoding="utf-8"))["bots"]
    rows = {row["id"]: row for row in rows_of(probed)}
    for sort in ("certain", "typical"):
        chosen = [rows[example["id"]] for example in bot["examples"][sort]]
        assert len({row["opening"] for row in chosen}) == 3
        assert all(row["label"] != "non-contradiction" for row in chosen)
        for example in bot["examples"][sort]:
            marks = [message["mark"] for message in example["messages"]]
            assert marks[-1] == "judged" and ("evidence" in marks) == (example["label"] == "history")


def test_the_paper_table_matches_the_rows(repo, lines, tmp_path, run):
    """The same report with the true labels as the verdicts: Table 2."""
    code, _, err = run("probe", "report", repo, "--out", tmp_path)
    assert code == 0, err
    written = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    from contradiction import cdconv

    for bot in written["bots"]:
        assert bot["detector"] is None and not bot["accuracy"]
        for trigger, figures in bot["by_trigger"].items():
            raw = next(method for method, name in cdconv.TRIGGERS.items() if name == trigger)
            labels = [row["label"] for row in lines if (row["model"], row["method"]) == (bot["bot"], raw)]
            if not labels:
                assert figures is None
                continue
            assert figures["contradiction"]["n"] == len(labels)
            assert figures["contradiction"]["estimate"] == pytest.approx(
                np.mean([label > 0 for label in labels]), abs=1e-5
            )
            for number, kind in enumerate(FOUR[1:], start=1):
                if kind in figures:
                    assert figures[kind]["estimate"] == pytest.approx(
                        np.mean([label == number for label in labels]), abs=1e-5
                    )


def test_a_run_with_a_conversation_that_was_not_judged_is_reported(probed, tmp_path, run):
    shutil.copytree(probed, tmp_path / "run")
    transcript = tmp_path / "run" / "transcript.jsonl"
    first, *others = transcript.read_text(encoding="utf-8").splitlines(keepends=True)
    unjudged = {key: value for key, value in json.loads(first).items() if key != "checked"}
    transcript.write_text(json.dumps(unjudged) + "\n" + "".join(others), encoding="utf-8")
    code, _, err = run("probe", "report", tmp_path / "run", "--out", tmp_path)
    assert code == 2 and err.count("\n") == 1 and "have not been judged" in err
    transcript.write_bytes(transcript.read_bytes() + '{"id": "我'.encode()[:-1] + b"\n")
    code, _, err = run("probe", "report", tmp_path / "run", "--out", tmp_path)
    assert code == 2 and err.count("\n") == 1 and f"transcript.jsonl:{len(others) + 2}" in err


def test_a_folder_without_verdicts_is_not_a_run(tmp_path):
    with pytest.raises(InputError, match="neither the folder of a run"):
        report.read(tmp_path)
