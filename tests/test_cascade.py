"""A cascade asks its judge only where its detector is uncertain. Its curve shows the gain and the cost."""

import shutil

import numpy as np
import pytest
from datasets import ClassLabel
from helpers.chat_server import ChatServer
from helpers.chats import chat, texts_of
from helpers.rules import uncalibrated
from helpers.scripted_judge import NAMES, question_of, scripted

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import cascades
from contradiction.evaluation.evaluate import trained_config
from contradiction.io.files import read_json, write_json
from contradiction.labels import is_contradiction
from contradiction.methods.composite import CascadeClassifier
from contradiction.methods.loading import load_classifier, load_rule
from contradiction.runs import cascade


@pytest.fixture
def parts(calibrated, judge, rows, tmp_path):
    """The folders of a detector and of a judge that is right on nine of ten rows, the server of the judge, and rows."""
    with ChatServer(scripted(rows, right=0.9)) as server:
        folder = judge(server, prices={"input": 1.0, "output": 2.0})
        yield shutil.copytree(calibrated[0], tmp_path / "detector"), folder, server, rows.select(range(200))


def test_the_curve_runs_from_the_detector_to_the_judge_and_cost_grows_with_the_share(parts):
    detector, judge, server, rows = parts
    steps = cascades.curve(load_classifier(detector), load_classifier(judge), rows, shares=(0.0, 0.25, 0.5, 1.0))
    assert [step.share for step in steps] == [0, 0.25, 0.5, 1]
    assert len(server.requests) == len(rows), "the judge gets each row once"
    from sklearn.metrics import f1_score

    by_part = [load_classifier(part).classify(list(rows)) for part in (detector, judge)]
    read = [place for place, row in enumerate(by_part[0]) if row.truncation is None]  # the judge reads every row
    references = [NAMES[rows[place]["label"]] for place in read]
    for step, classified in zip(steps[::3], by_part, strict=True):
        labels = [classified[place].label for place in read]
        assert step.macro_f1["4-class"][0] == pytest.approx(f1_score(references, labels, average="macro"))
    assert (steps[0].unchecked, steps[-1].unchecked) == (200 - len(read), 0) and 0 < len(read) < 200
    f1 = [step.macro_f1["2-class"][0] for step in steps]
    assert f1[0] < f1[1] < f1[2] < f1[3]
    assert steps[0].cost == 0 and steps[1].cost == pytest.approx(steps[-1].cost / 4)
    assert steps[1].low > steps[2].low > steps[3].low == 0 and steps[1].high < steps[2].high < steps[3].high == 1


def test_a_share_of_rows_with_equal_probabilities_is_what_a_cascade_with_these_bounds_asks_about(parts):
    _, judge, _, rows = parts
    rows = rows.select(range(80))
    cheap, expensive = load_classifier(judge), load_classifier(judge)  # a judge with one vote has few probabilities
    steps = cascades.curve(cheap, expensive, rows, shares=(0.0, 0.2, 0.5, 1.0))
    for step in steps:
        both = CascadeClassifier(cheap, load_classifier(judge), step.low, step.high)
        both.classify(list(rows))
        assert both.judge.usage()["answers"] == round(step.share * len(rows))
    assert steps[1].share == steps[2].share >= 0.5
    assert len(cascades.table(steps, len(rows)).rows) == len({step.share for step in steps})


def test_a_cascade_without_its_card_is_not_written(parts, monkeypatch, tmp_path):
    detector, judge, _, rows = parts
    rows = rows.select(range(40))
    [step] = cascades.curve(load_classifier(detector), load_classifier(judge), rows, shares=(0.2,))
    monkeypatch.setattr("contradiction.runs.model_card", None)
    with pytest.raises(TypeError):
        cascade(detector, judge, step, tmp_path / "both", rows, curve=[step], config="4-class")
    assert not (tmp_path / "both").exists()


def test_rows_without_an_answer_are_counted_and_in_no_score(parts):
    detector, judge, server, rows = parts
    rows = rows.select(range(40))
    right, silent = server.answer, [texts_of(row) for row in rows][::4]
    server.answer = lambda body: "我不知道" if question_of(body) in silent else right(body)
    steps = cascades.curve(load_classifier(detector), load_classifier(judge), rows, shares=(0.0, 0.5, 1.0))
    assert [step.unanswered for step in steps][::2] == [0, 10] and 0 < steps[1].unanswered < 10
    others = [place for place in range(40) if place % 4]
    alone = cascades.curve(load_classifier(detector), load_classifier(judge), rows.select(others), shares=(0.0, 1.0))
    assert [step.macro_f1 for step in steps[::2]] == [step.macro_f1 for step in alone]
    assert " 10 " in cascades.table(steps, 40).markdown()
    with pytest.raises(InputError, match="no row was read by both; of the first one, the judge gave no usable answer"):
        cascades.curve(load_classifier(detector), load_classifier(judge), rows.select(range(0, 40, 4)))


def test_a_saved_cascade_asks_only_about_uncertain_rows_and_is_a_normal_model(parts, run, tmp_path):
    detector, judge, server, rows = parts
    [step] = cascades.curve(load_classifier(detector), load_classifier(judge), rows, shares=(0.25,))
    out = tmp_path / "cascade"
    cascade(detector, judge, step, out, rows, curve=[step], config="4-class")
    assert load_rule(out).prior == pytest.approx(np.mean([label > 0 for label in rows["label"]]), abs=1e-4)
    (out / "judge" / "answers.jsonl").unlink()
    server.requests.clear()
    classifier = load_classifier(out)
    predictions = classifier.classify(list(rows))
    assert isinstance(classifier, CascadeClassifier)
    assert len(server.requests) == 50 == classifier.usage()["answers"]
    questions = {question_of(body) for body in server.requests}
    others = [place for place, row in enumerate(rows) if texts_of(row) not in questions]
    alone = load_classifier(detector).classify([rows[place] for place in others])
    scores = np.array([[one.scores[name] for name in NAMES] for one in alone])
    own = np.array([[*uncalibrated(classifier, predictions[place].scores).values()] for place in others])
    np.testing.assert_allclose(own, scores, atol=1e-6)
    detected = ContradictionDetector.from_pretrained(out)
    row = rows[0]
    verdict = detected(chat(*texts_of(row)))
    assert verdict.label in NAMES and verdict.contradiction == is_contradiction(verdict.label)


def test_an_opening_reply_that_the_detector_cannot_judge_is_left_to_the_judge(parts):
    detector, judge, server, _ = parts
    server.answer = lambda body: '{"label": "intra-sentence"}'
    pairs = load_classifier(detector)
    pairs.columns = ("b1", "b2")
    assert not pairs.judges_openings
    both = ContradictionDetector(CascadeClassifier(pairs, load_classifier(judge), 1.0, 0.0))
    verdict = both(chat("你会游泳吗？", "我不会游泳，昨天刚游了一千米"))
    assert verdict.label == "intra-sentence" and len(server.requests) == 1


@pytest.mark.parametrize(
    ("windowing", "max_turns", "requests"), [("windowed", 50, 5), ("windowed", 3, 3), ("unstructured", 50, 1)]
)
def test_a_reply_costs_at_most_one_request_for_each_earlier_turn(parts, windowing, max_turns, requests):
    detector, judge, server, _ = parts
    server.answer = lambda body: '{"label": "non-contradiction"}'
    everywhere = CascadeClassifier(load_classifier(detector), load_classifier(judge), 0.0, 1.0)
    texts = [text for number in range(6) for text in (f"第{number}个问题是什么？", f"我的回答是{number}")]
    ContradictionDetector(everywhere).with_settings(windowing=windowing, max_turns=max_turns)(chat(*texts))
    assert len(server.requests) == requests


def record_of(folder, config):
    """Writes a record that says that the model in a folder was trained on a config."""
    write_json(folder / "run.json", {"request": {"recipe": {"data": {"config": config}}, "data_name": "CDConv"}})


def test_the_command_prints_the_curve_and_saves_the_cascade(parts, run, monkeypatch, tmp_path):
    """It reads the config of the detector, and the cascade records what both parts were trained on."""
    detector, judge, _, rows = parts
    loaded, curves, curve = [], [], cascades.curve
    monkeypatch.setattr(cascades, "curve", lambda *a, **k: curves.append((curve(*a, **k), len(a[2]))) or curves[-1][0])
    monkeypatch.setattr("contradiction.data.splits.load_split", lambda *place: loaded.append(place) or rows)
    record_of(detector, "4-class-grouped")
    command = ("cascade", detector, judge, "--out", tmp_path / "both", "--share", "0.3", "--limit", "40")
    with monkeypatch.context() as patched:
        patched.setattr("contradiction.methods.checkpoint.CheckpointClassifier.score", None)
        code, _, err = run(*command)
    assert code == 2 and "40 requests to tiny" in err, "it asks before the detector judges"
    code, out, err = run(*command, "--yes")
    assert code == 0 and "both: its rule was fitted to few rows" in err
    [(steps, count)] = curves
    assert count == 40 and {0.0, 0.3, 1.0} <= {step.share for step in steps}
    chosen = next(step for step in steps if step.share == 0.3)
    marker = read_json(tmp_path / "both" / "cascade.json")
    assert marker["low"] == pytest.approx(chosen.low, abs=1e-6) and "What the judge was asked for" in out
    assert loaded == 2 * [("cdconv", "4-class-grouped", "validation")]
    assert f"cdconv evaluate {tmp_path / 'both'}\n" in out and trained_config(tmp_path / "both") == "4-class-grouped"
    ancestors = read_json(tmp_path / "both" / "run.json")["ancestors"]
    assert {(entry["model"], entry["config"]) for entry in ancestors} == {("detector", "4-class-grouped")}


def test_a_precision_that_is_slow_here_is_rejected_wherever_a_rule_is_fitted(parts, run, monkeypatch, tmp_path):
    detector, judge, _, rows = parts
    monkeypatch.setattr("contradiction.data.splits.load_split", lambda *place: rows)
    monkeypatch.setattr("contradiction.inference.torch_backend.has_bf16", lambda: False)
    for command in (("cascade", detector, judge), ("calibrate", detector)):
        code, _, err = run(*command, "--config", "4-class", "--precision", "bf16")
        assert code == 2 and "this CPU has no instructions for bf16" in err
    [step] = cascades.curve(load_classifier(detector), load_classifier(judge), rows, shares=(0.2,))
    with pytest.raises(InputError, match="no instructions for bf16"):
        cascade(detector, judge, step, tmp_path / "both", rows, curve=[step], config="4-class", precision="bf16")
    assert not (tmp_path / "both").exists()


def test_int8_needs_a_causal_part(parts, run, monkeypatch):
    detector, judge, server, rows = parts
    monkeypatch.setattr("contradiction.data.splits.load_split", lambda *place: rows)
    code, _, err = run("cascade", detector, judge, "--config", "4-class", "--precision", "int8", "--yes")
    assert code == 2 and "int8 is for causal detectors" in err and not server.requests


def test_rows_that_a_part_was_trained_on_choose_no_cascade(parts, run, monkeypatch):
    detector, judge, server, rows = parts
    monkeypatch.setattr("contradiction.data.splits.load_split", lambda *place: rows)
    record_of(detector, "4-class-grouped")
    record_of(judge, "4-class")
    for part, options in ((detector, ("--config", "4-class")), (judge, ())):
        code, _, err = run("cascade", detector, judge, *options)
        assert (code, err.count("\n"), server.requests) == (2, 1, [])
        assert f"{part} was trained on 4-class" in err and "the validation split of 4-class" in err


def test_incompatible_parts_are_rejected(parts, random_model, tmp_path):
    detector, judge, _, rows = parts
    with pytest.raises(InputError, match="labels non-contradiction, contradiction; .* intra-sentence"):
        cascades.curve(load_classifier(random_model("2-class")), load_classifier(judge), rows)
    persona = load_classifier(random_model("persona"))
    with pytest.raises(InputError, match=r"labels .*contradictions .*\(unrelated, "):
        cascades.curve(persona, persona, rows.cast_column("label", ClassLabel(names=[*persona.labels])))
    shutil.copytree(judge, tmp_path / "cascade" / "judge")
    for part, bounds, words in (
        (random_model("2-class"), {"low": 0.2, "high": 0.8}, "must have the same labels"),
        (detector, {"low": 0.2, "high": 2}, "doubt is from 0.2 to 2"),
    ):
        shutil.rmtree(tmp_path / "cascade" / "detector", ignore_errors=True)
        shutil.copytree(part, tmp_path / "cascade" / "detector")
        write_json(tmp_path / "cascade" / "cascade.json", {"parts": ["detector", "judge"], **bounds})
        with pytest.raises(InputError, match=words):
            load_classifier(tmp_path / "cascade")
