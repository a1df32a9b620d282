"""The report: called shares, intervals, the gate, labels, estimates of the true rates of a scripted bot, pages."""

import json
import re
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from helpers.bot_server import BotServer, chance, scripted, true_label
from helpers.chats import chat, objects, write_jsonl
from hypothesis import given
from hypothesis import strategies as st

from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import results
from contradiction.evaluation.evaluate import evaluate
from contradiction.inference.base import Scores
from contradiction.io.files import read_json, write_json
from contradiction.labels import LABELS
from contradiction.methods import loading
from contradiction.methods.base import Classifier
from contradiction.paths import SHIPPED
from contradiction.probing import pages, report
from contradiction.probing.plan import ALL_TRIGGERS, instruction
from contradiction.probing.run import Accuracy, find_accuracy, judged

SENSITIVITY, SPECIFICITY = 0.8, 0.8
FOUR = list(LABELS["4-class"])
TRIGGERS = ",".join(ALL_TRIGGERS[:-1])
HISTORY, NONE = "history", "non-contradiction"


def row_of(number, label=NONE, **values):
    """A judged conversation of a transcript with an opening of its own."""
    texts = {"u1": f"{number}？", "b1": "我养了猫", "u2": "真的吗？", "b2": "我没养猫"}
    row = {"id": str(number), "trigger": "short", "opening": str(number), "label": label, "checked": True}
    return row | texts | values


def figures_of(rows, **options):
    """The figures of one bot whose conversations are these rows."""
    [bot] = report.build([report.Source("bot", rows, "judge", **options)])["bots"]
    return bot


def with_labels(tmp_path, sources, labels):
    return report.build(sources, write_jsonl(tmp_path / "labels.jsonl", labels))


class NumbersClassifier(Classifier):
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
        u1, u2 = f"{number}？", f"再问{number}"
        b1 = scripted(chat(u1))
        b2 = scripted(chat(u1, b1, u2))
        row = {"u1": u1, "b1": b1, "u2": u2, "b2": b2}
        rows.append({"id": number, **row, "label": true_label(b1, b2)})
    text = Value("string")
    columns = {"id": Value("int32"), "u1": text, "b1": text, "u2": text, "b2": text, "label": ClassLabel(names=FOUR)}
    data = Dataset.from_list(rows, features=Features(columns))
    write_json(folder / "evaluation.json", evaluate(ContradictionDetector.from_pretrained(folder), data))
    yield folder, folder / "evaluation.json"
    loading.METHODS.remove(NumbersClassifier)


@pytest.fixture(scope="module")
def probed(judge, tmp_path_factory):
    """The folder of a command-line run with the scripted bot, and its stderr."""
    from contradiction.commands.probe import run_probe

    out, (model, evaluation) = tmp_path_factory.mktemp("probe") / "scripted", judge
    with BotServer() as endpoint:
        run_probe(
            out, endpoint=endpoint.url, name="scripted", conversations=225, triggers=TRIGGERS, model=str(model),
            evaluation=evaluation,
        )  # fmt: skip
    return out


def rows_of(folder):
    return objects(folder / "transcript.jsonl")


def test_the_intervals_contain_the_true_rates_of_a_scripted_bot(probed):
    rows, written = rows_of(probed), read_json(probed / "report.json")
    [bot] = written["bots"]
    truth = [true_label(row["b1"], row["b2"]) for row in rows]
    assert (bot["conversations"], bot["read"], bot["read_in_part"], bot["not_judged"]) == (225, 225, 0, 0)
    figures, called = bot["estimate"], bot["called"]["contradiction"]
    true = np.mean([label != NONE for label in truth])
    assert figures["low"] <= true <= figures["high"] and abs(true - figures["share"]) < 0.1
    assert called["called"] == sum(row["label"] != NONE for row in rows)
    assert not called["low"] <= true <= called["high"]  # the uncorrected verdicts are biased
    assert [bot["by_trigger"][trigger]["n"] for trigger in written["triggers"]] == [25] * 9


@given(st.lists(st.tuples(st.sampled_from([NONE, HISTORY, None]), st.booleans()), min_size=1, max_size=60), st.data())
def test_the_gate_is_monotone_in_what_was_called(verdicts_, data):
    """A bot of which one more conversation is called never passes where it failed before, with or without labels."""
    rows = [row_of(number, label, checked=checked) for number, (label, checked) in enumerate(verdicts_)]
    truths = data.draw(st.lists(st.sampled_from([None, NONE, HISTORY]), min_size=len(rows), max_size=len(rows)))
    rows = [row | {"truth": truth} for row, truth in zip(rows, truths, strict=True)]
    rate = data.draw(st.floats(0, 1))
    more = data.draw(st.integers(0, len(rows) - 1))
    called = [{**row, "label": HISTORY} if row["label"] == NONE and n <= more else row for n, row in enumerate(rows)]
    before, after = figures_of(rows), figures_of(called)
    assert report.is_above(after, rate) >= report.is_above(before, rate)
    if before["called"]:
        assert after["called"]["contradiction"]["called"] >= before["called"]["contradiction"]["called"]


@pytest.mark.parametrize(("called", "fails"), [(10, False), (16, False), (17, True), (45, True), (288, True)])
def test_the_gate_the_badge_and_the_headline_show_what_was_called(called, fails):
    """320 conversations: 3.1 % called passes at 5 %; 14 % fails, and so does a bot that flips every answer."""
    rows = [row_of(n, HISTORY if n < called else NONE) for n in range(320)]
    bot = figures_of(rows, accuracy=Accuracy(500, 850, 240, 1480), measured_on="rows")
    assert report.is_above(bot, 0.05) == fails
    shown = f"{100 * called / 320:.1f} %"
    assert shown in pages.badge(bot) and shown in pages.headlines({"bots": [bot]})[0].split("(")[0]
    assert (pages.GOOD in pages.badge(bot)) == (not fails)


def test_what_was_read_in_part_or_not_judged_is_counted_and_is_no_part_of_a_share(tmp_path):
    rows = [row_of(n, HISTORY if n % 5 == 0 else NONE) for n in range(40)]
    unread = [row_of(40 + n, NONE, checked=False) for n in range(60)] + [row_of(100, None, checked=False)]
    bot = figures_of(rows + unread)
    assert (bot["conversations"], bot["read"], bot["read_in_part"], bot["not_judged"]) == (101, 40, 60, 1)
    assert (bot["called"]["contradiction"]["n"], bot["called"]["contradiction"]["share"]) == (40, 0.2)
    assert bot["by_trigger"]["short"]["n"] == 40
    pages.write(report.build([report.Source("bot", rows + unread, "judge")]), tmp_path)
    for name in ("report.html", "report.md"):
        assert "60 replies were read in part" in (tmp_path / name).read_text(encoding="utf-8")


def test_a_bot_of_which_nothing_was_read_whole_has_no_share_and_fails_each_gate(tmp_path):
    rows = [row_of(n, NONE, checked=False) for n in range(8)]
    bot = figures_of(rows)
    assert bot["called"] is None and bot["read_in_part"] == 8 and report.is_above(bot, 1.0)
    pages.write(report.build([report.Source("bot", rows, "judge")]), tmp_path)
    assert "not read" in (tmp_path / "badge.svg").read_text(encoding="utf-8")
    assert "0.0" not in (tmp_path / "report.md").read_text(encoding="utf-8").split("How it was measured")[0]


def test_error_rates_by_another_calibration_are_not_used(judge, monkeypatch):
    folder, file = judge
    result, notes = results.read_evaluation(file), []
    monkeypatch.setattr(results, "evaluations_of", lambda model: [result | {"split": "test"}])
    detector = ContradictionDetector.from_pretrained(folder)
    measured = find_accuracy(detector, on_note=notes.append)
    assert measured["counts"] == find_accuracy(detector, file)["counts"] and not notes
    # Another threshold is the decision of the detector, which these probabilities can be compared with.
    detector.classifier.rule = Rule(threshold=0.9)
    assert find_accuracy(ContradictionDetector(detector.classifier), file)
    for rule in (Rule(temperature=2.0), Rule(biases={"history": 1.0})):
        detector.classifier.rule = rule
        fitted = ContradictionDetector(detector.classifier)
        assert find_accuracy(fitted, on_note=notes.append) is None
        assert "cdconv evaluate" in notes.pop() and not notes
        with pytest.raises(InputError, match="another calibration.*cdconv evaluate"):
            find_accuracy(fitted, file)


def test_the_saved_error_rates_are_those_of_the_shipped_detector():
    assert find_accuracy(ContradictionDetector.from_pretrained(SHIPPED), on_note=pytest.fail)


def test_labels_replace_verdicts_and_measure_the_detector_for_the_rest(probed, tmp_path, run):
    rows = rows_of(probed)
    truth = {row["id"]: true_label(row["b1"], row["b2"]) for row in rows}
    lines = [json.dumps({"id": row["id"], "label": truth[row["id"]]}) for row in rows[::3]]
    (tmp_path / "labels.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    code, _, err = run("probe", "report", probed, "--labels", tmp_path / "labels.jsonl", "--out", tmp_path)
    [bot] = read_json(tmp_path / "report.json")["bots"]
    assert code == 0 and (bot["labelled"], bot["measured_on"]) == (75, "75 labelled conversations")
    decided = [truth[row["id"]] if n % 3 == 0 else row["label"] for n, row in enumerate(rows)]
    assert bot["called"]["contradiction"]["called"] == sum(label != NONE for label in decided)
    figures = bot["estimate"]
    assert figures["low"] <= np.mean([label != NONE for label in truth.values()]) <= figures["high"]
    assert "Label a sample" in err
    for wrong in ('{"id": "short/1", "label": "bad"}', "[1]", '{"bot": "x", "id": "short/1", "label": "history"}'):
        (tmp_path / "labels.jsonl").write_text(f"{lines[0]}\n{wrong}", encoding="utf-8")
        code, _, err = run("probe", "report", probed, "--labels", tmp_path / "labels.jsonl", "--out", tmp_path)
        assert code == 2 and "labels.jsonl:2" in err


def test_with_everything_labelled_nothing_is_estimated_and_no_labels_are_asked_for(tmp_path):
    """The detector called all of these conversations, and people none but three."""
    rows = [row_of(n, HISTORY, checked=n != 7) for n in range(100)]
    labels = [{"id": str(n), "label": HISTORY if n < 3 else NONE} for n in range(100)]
    labels[0]["label"] = "contradiction"  # its kind is that of the verdict
    built = with_labels(tmp_path, [report.Source("bot", rows, "judge", Accuracy(9, 9, 0, 9))], labels)
    [bot] = built["bots"]
    assert bot["estimate"] is None and (bot["read"], bot["labelled"]) == (100, 100)
    assert bot["by_trigger"]["short"]["share"] == bot["called"]["contradiction"]["share"] == 0.03
    assert bot["called"]["history"]["called"] == 3 and len(bot["examples"]) == 3
    text = pages.markdown(built) + pages.html(built)
    assert "Label a sample" not in text and "stimate of the true share" not in text


def test_each_bot_is_measured_by_its_own_labels(tmp_path):
    """The detector is always right on one bot, and right on four of five replies of the other. The bots are alike."""
    truth = [NONE if number % 4 else HISTORY for number in range(200)]
    flipped = {HISTORY: NONE, NONE: HISTORY}
    easy = report.Source("easy", [row_of(n, label) for n, label in enumerate(truth)], "judge")
    wrong = [row_of(n, label if n % 5 else flipped[label]) for n, label in enumerate(truth)]
    hard = report.Source("hard", wrong, "judge")
    lines = [{"id": str(n), "label": label} for n, label in enumerate(truth)]
    built = with_labels(tmp_path, [easy, hard], [*lines[:100], *({**line, "bot": "hard"} for line in lines[:100])])
    accuracies = [bot["accuracy"] for bot in built["bots"]]
    assert [(one["hits"], one["alarms"]) for one in accuracies] == [(25, 0), (20, 15)]
    assert [bot["estimate"]["share"] for bot in built["bots"]] == pytest.approx([0.25, 0.25], abs=0.02)
    assert built["comparisons"][0]["all"]["n"] == 200
    built = with_labels(tmp_path, [easy, hard], [*lines, *({**line, "bot": "hard"} for line in lines)])
    assert built["comparisons"][0]["all"]["share"] == 0, "both are labelled, and alike"
    built = with_labels(tmp_path, [easy, hard], lines)
    assert built["comparisons"][0]["all"]["share"] == 0.1, "where one is not labelled, verdicts are compared"
    assert [bot["measured_on"] for bot in built["bots"]] == ["200 labelled conversations", None]


def test_two_versions_are_compared_on_the_same_probes(probed, judge, tmp_path, run):
    """The better version contradicts only its history. A copy of the first version does not differ from it."""

    def better(messages):
        reply = scripted(messages)
        return reply.replace("，我没养猫", "").replace("？你养了", "？我养了")

    model, evaluation = judge
    with BotServer(better) as endpoint:
        code, out, err = run(
            "probe", "run", "--endpoint", endpoint.url, "--name", "better", "--conversations", "225", "--triggers",
            TRIGGERS, "--model", model, "--evaluation", evaluation, "--out", tmp_path / "better", "--fail-above", "0.9",
        )  # fmt: skip
    assert code == 0, err
    assert "225 conversations in the transcript" in err
    code, out, err = run(
        "probe", "report", probed, tmp_path / "better", "--out", tmp_path / "both", "--fail-above", "0.01"
    )
    assert code == 1 and re.search(r"better: \d+\.\d % called a contradiction; --fail-above allows 1 %", err)
    assert re.search(r"better compared with scripted: called\n(.*\n)+ +all +225 ", out)
    written = read_json(tmp_path / "both" / "report.json")
    [comparison] = written["comparisons"]
    assert (comparison["first"], comparison["second"], comparison["all"]["n"]) == ("scripted", "better", 225)
    true = np.mean(
        [true_label(row["b1"], row["b2"]) in ("intra-sentence", "role-confusion") for row in rows_of(probed)]
    )
    called = -true * (SENSITIVITY + SPECIFICITY - 1)
    assert comparison["all"]["low"] <= called <= comparison["all"]["high"] < 0 and comparison["all"]["p_value"] < 0.01
    same = report.build([*report.read(probed), *report.read(probed)])["comparisons"][0]
    assert (same["all"]["share"], same["all"]["p_value"], same["second"]) == (0, 1, "scripted (2)")


def test_the_pages_show_the_same_figures_and_escape_the_messages(probed, tmp_path):
    [source] = report.read(probed)
    rows = [{**row, "b2": f"<script>alert(1)</script>\n\n# 答\n{row['b2']}"} for row in source.rows]
    for row in rows:
        row["messages"][-1]["content"] = row["b2"]
    built = report.build([report.Source("<b>bot</b>", rows, source.detector, source.accuracy, source.measured_on)])
    pages.write(built, tmp_path)
    html, text = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    every = pages.cell(built["bots"][0]["called"]["contradiction"])
    assert every in html and every in text
    assert "<script>" not in html and "<b>bot" not in html and "alert(1)" in html
    assert "http" not in html.replace("http://www.w3.org", "")  # one file, which loads nothing
    badge = (tmp_path / "badge.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(badge).tag.endswith("svg") and every.split()[0] in badge


def test_a_repeated_question_is_compared_with_its_first_answer_also_with_a_persona(judge):
    texts = {"u1": "你养了几只猫？", "b1": "我养了3只猫", "u2": "你养了几只猫？", "b2": "我养了4只猫"}
    between = ("今天天气不错", "我养了4只猫")
    messages = [*instruction(("我养了9只猫",)), *chat(texts["u1"], texts["b1"], *between, texts["u2"], texts["b2"])]
    row = {"id": "repeat-1/a/0", "trigger": "repeat-1", **texts, "messages": messages}
    detector = ContradictionDetector.from_pretrained(judge[0])
    [one] = judged([row], detector)
    alone = detector(chat(*texts.values()))
    assert (one["label"], one["probability"]) == (alone.label, round(alone.probability, 6))
    assert one["evidence"] == ["我养了3只猫"]


def test_examples_are_contradictions_from_different_openings_with_their_evidence(probed):
    [bot] = read_json(probed / "report.json")["bots"]
    rows = {row["id"]: row for row in rows_of(probed)}
    chosen = [rows[example["id"]] for example in bot["examples"]]
    assert len({row["opening"] for row in chosen}) == len(chosen) == 6
    assert all(row["label"] != NONE for row in chosen)
    for example in bot["examples"]:
        marks = [message["mark"] for message in example["messages"]]
        assert marks[-1] == "judged" and ("evidence" in marks) == (example["label"] == HISTORY)


@pytest.mark.parametrize(
    ("label", "mark"), [("intra-sentence", ""), ("contradiction", "evidence"), (HISTORY, "evidence")]
)
def test_the_evidence_of_a_verdict_is_not_shown_as_that_of_another_label(label, mark, tmp_path):
    rows = [row_of(1, HISTORY, evidence=["我养了猫"])]
    built = with_labels(tmp_path, [report.Source("bot", rows, "judge")], [{"id": "1", "label": label}])
    [example] = built["bots"][0]["examples"]
    assert [message["mark"] for message in example["messages"]] == ["", mark, "", "judged"]


def test_the_paper_table_matches_the_rows(repo, lines, tmp_path, run):
    """The same report with the true labels as the verdicts: Table 2."""
    code, _, err = run("probe", "report", repo, "--out", tmp_path)
    assert code == 0, err
    written = read_json(tmp_path / "report.json")
    from contradiction import cdconv

    for bot in written["bots"]:
        assert bot["detector"] is None and bot["estimate"] is None and bot["labelled"] == bot["read"]
        for trigger, figures in bot["by_trigger"].items():
            raw = next(method for method, name in cdconv.TRIGGERS.items() if name == trigger)
            labels = [row["label"] for row in lines if (row["model"], row["method"]) == (bot["bot"], raw)]
            if not labels:
                assert figures is None
                continue
            assert (figures["n"], figures["called"]) == (len(labels), sum(label > 0 for label in labels))
        labels = [row["label"] for row in lines if row["model"] == bot["bot"]]
        assert {kind: bot["called"][kind]["called"] for kind in FOUR[1:]} == {
            kind: labels.count(number) for number, kind in enumerate(FOUR[1:], start=1)
        }


def test_a_damaged_transcript_is_named_with_its_line(probed, tmp_path):
    shutil.copytree(probed, tmp_path / "run")
    transcript = tmp_path / "run" / "transcript.jsonl"
    lines = transcript.read_bytes().count(b"\n")
    transcript.write_bytes(transcript.read_bytes() + '{"id": "我'.encode()[:-1] + b"\n")
    with pytest.raises(InputError, match=f"transcript.jsonl:{lines + 1}"):
        report.read(tmp_path / "run")
    with pytest.raises(InputError, match="neither the folder of a run"):
        report.read(tmp_path)
