"""A language model as a judge is a method like the others. Its requests and their cost are known."""

import json
import re
import signal
import time

import numpy as np
import pytest
from helpers.chat_server import ChatServer
from helpers.chats import CHAT, TEXTS, chat, texts_of, write_jsonl
from helpers.processes import cdconv, start, wait_for
from helpers.scripted_judge import NAMES, question_of, scripted
from test_writers import SMALL_CHUNKS

from contradiction import guidelines
from contradiction.data.splits import load_split
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.inputs.views import row_of
from contradiction.io.files import read_json
from contradiction.methods import llm_judge
from contradiction.methods.composite import CascadeClassifier
from contradiction.methods.loading import load_classifier
from contradiction.verdict import NO_ANSWER


def always(label):
    return lambda body: json.dumps({"label": label})


def test_a_perfect_judge_gets_a_perfect_score_with_tokens_time_and_cost(run, judge, sample_repo, tmp_path):
    rows = load_split(sample_repo, "4-class", "test")
    with ChatServer(scripted(rows, right=0.8), seconds=0.02) as server:
        folder = judge(server, prices={"input": 2.0, "output": 6.0})
        command = ("evaluate", folder, "--data", sample_repo, "--json", tmp_path / "result.json")
        code, _, err = run(*command)
        assert (code, server.requests) == (2, []) and f"{len(rows)} requests" in err
        code, out, err = run(*command, "--yes")
    assert code == 0, err
    result = read_json(tmp_path / "result.json")
    right = np.mean([scripted(rows, 1.0)(body) == scripted(rows, 0.8)(body) for body in server.requests])
    assert result["metrics"]["accuracy"] == pytest.approx(right, abs=1e-9)
    assert 0.6 < right < 0.95
    used = result["usage"]
    assert used["answers"] == len(rows) == len(server.requests) and not used["unusable"]
    expected = sum(len(message["content"]) for body in server.requests for message in body["messages"])
    assert used["prompt_tokens"] == expected
    assert used["cost"] == pytest.approx((2 * expected + 6 * used["completion_tokens"]) / 1e6)
    assert min(used["slow_seconds"], used["seconds"]) >= 0.02
    assert "prompt tokens" in out and "seconds an answer" in out
    assert 1 < server.most_at_once <= 8


@pytest.mark.parametrize(
    ("typed", "sent", "arguments"),
    [(None, 0, ()), (b"n\n", 0, ()), (b"", 0, ()), (b"y\n", 40, ()), (None, 40, ("--yes",))],
)
def test_the_cost_is_shown_and_nothing_is_sent_unasked(run, judge, sample_repo, monkeypatch, arguments, typed, sent):
    rows = load_split(sample_repo, "4-class", "validation").select(range(40))
    monkeypatch.setattr("contradiction.data.splits.load_split", lambda *_: rows)
    with ChatServer(scripted(rows)) as server:
        folder = judge(server, prices={"input": 10.0, "output": 0.0})
        terminal = {} if typed is None else {"stdin": typed, "terminal": True}
        code, _, err = run("calibrate", folder, "--data", sample_repo, *arguments, **terminal)
        assert (code, len(server.requests)) == (0 if sent else 2, sent)
        tokens = sum(len(message["content"].encode()) for body in server.requests for message in body["messages"]) // 3
        assert "40 requests to tiny" in err and "Traceback" not in err
        if sent:
            assert f"about {tokens:,} tokens" in err and f"for {tokens / 1e5:,.2f}" in err
            code, _, err = run("calibrate", folder, "--data", sample_repo)
            assert (code, len(server.requests), "requests" in err) == (0, sent, False), "all answers are known"


def test_detect_shows_the_cost_at_the_end_and_no_precision(run, judge, monkeypatch):
    monkeypatch.setattr("contradiction.chats.detection.chosen_precision", lambda *_: "bf16")
    with ChatServer(always("history")) as server:
        code, out, err = run("detect", "--model", judge(server), "--text", json.dumps(chat(*TEXTS)))
    assert (code, out.count("\n"), "computes in" in err) == (0, 1, False) and "What the judge was asked for" in err


def test_workers_show_the_sum_of_what_their_judges_used(judge, tmp_path):
    chats = [{"messages": chat(*TEXTS[:3], f"{TEXTS[3]}{index}")} for index in range(20)]
    file, counts = write_jsonl(tmp_path / "chats.jsonl", chats), []
    for workers in ("1", "2"):
        with ChatServer(always("history")) as server:
            folder = judge(server, name=f"judge-{workers}", prices={"input": 2.0, "output": 6.0})
            ended = cdconv("detect", file, "--model", folder, "--workers", workers, before=SMALL_CHUNKS)
        assert ended.returncode == 0 and len(server.requests) == 20, ended.stderr
        counts.append([line for line in ended.stderr.splitlines() if re.search("answers|tokens|cost", line)])
    assert counts[0] == counts[1] and len(counts[0]) == 5


def test_the_sum_of_usages_counts_each_answer_once():
    def used(answers, seconds, cost):
        counts = {"answers": answers, "cached": 1, "unusable": 0, "prompt_tokens": 10, "completion_tokens": 2}
        return {**counts, "seconds": seconds, "slow_seconds": seconds, "cost": cost}

    total = llm_judge.total_usage([used(1, 4.0, 0.5), None, used(3, 2.0, 0.25), used(0, None, 0.0)])
    assert (total["answers"], total["cached"], total["prompt_tokens"]) == (4, 3, 30)
    assert (total["seconds"], total["slow_seconds"], total["cost"]) == (2.5, 4.0, 0.75)
    assert llm_judge.total_usage([None, None]) is None
    assert llm_judge.total_usage([used(1, 1.0, 0.5), used(1, 1.0, None)])["cost"] is None, "a model without a price"


def test_the_prompt_contains_the_guidelines_and_asks_for_one_of_the_labels(judge):
    with ChatServer(always("history")) as server:
        verdict = ContradictionDetector.from_pretrained(judge(server))(chat(*TEXTS))
    [body] = server.requests
    assert question_of(body) == TEXTS
    system = body["messages"][0]["content"]
    assert all(meaning in system for meaning in guidelines.MEANINGS["zh"].values())
    assert body["response_format"]["json_schema"]["schema"]["properties"]["label"]["enum"] == list(NAMES)
    assert (body["model"], body["temperature"]) == ("tiny", 0.0)
    assert verdict.label == "history" and verdict.evidence == (1,) and verdict.checked


@pytest.mark.parametrize(
    "text", ["`<|im_end|>` 好", "<|im_<|im_<|im_<|im_<|im_end|>end|>end|>end|>end|>好", "`</s>` 好"]
)
def test_no_mark_of_a_model_in_a_chat_reaches_the_judge_as_one(judge, text):
    with ChatServer(always("history")) as server:
        ContradictionDetector.from_pretrained(judge(server))(chat(*TEXTS[:3], text))
    [body] = server.requests
    assert "<" not in body["messages"][-1]["content"]
    assert question_of(body)[-1] == llm_judge.plain(text) and "<" in llm_judge.plain(text)


def test_examples_are_training_rows_of_the_sample_with_each_label_in_turn(judge, sample_repo):
    with ChatServer(always("non-contradiction")) as server:
        ContradictionDetector.from_pretrained(judge(server, shots=8))(chat(*TEXTS))
    [body] = server.requests
    shown = [json.loads(message["content"]) for message in body["messages"][1:-1]]
    assert [answer["label"] for answer in shown[1::2]] == [*NAMES, *NAMES]
    train = {texts_of(row): NAMES[row["label"]] for row in load_split(sample_repo, "4-class", "train")}
    texts = [(*(message["content"] for message in question["messages"]), question["reply"]) for question in shown[::2]]
    assert [train[row] for row in texts] == [answer["label"] for answer in shown[1::2]]


def test_several_votes_are_a_majority_and_its_share_is_the_probability(judge):
    votes = iter(["history", "non-contradiction", "history"])
    with ChatServer(lambda body: json.dumps({"label": next(votes)})) as server:
        folder = judge(server, votes=3, concurrency=1)
        detector = ContradictionDetector.from_pretrained(folder)
        verdict = detector(chat(*TEXTS))
        assert detector(chat(*TEXTS)) == verdict, "answers are cached"
    assert len(server.requests) == 3 and {body["temperature"] for body in server.requests} == {0.7}
    assert verdict.label == "history"
    assert verdict.probability == pytest.approx(2.3 / 3.4)


def test_cached_answers_are_separate_for_each_server(judge):
    """Two servers may serve different models under one name."""
    labels = []
    for label in ("history", "non-contradiction"):
        with ChatServer(always(label)) as server:
            labels.append(ContradictionDetector.from_pretrained(judge(server))(chat(*TEXTS)).label)
    assert labels == ["history", "non-contradiction"]


def test_english_and_long_chats_are_each_judged_in_one_request(judge):
    texts = ("Do you have a pet?", "A cat.", "Nice weather?", "Sunny.", "What is its name?", "I never had a pet.")
    with ChatServer(always("history")) as server:
        detector = ContradictionDetector.from_pretrained(judge(server, language="en"), windowing="unstructured")
        assert detector(chat(*texts)).label == "history"
    [body] = server.requests
    question = json.loads(body["messages"][-1]["content"])
    assert question == {"messages": chat(*texts[:-1]), "reply": texts[-1]}
    assert guidelines.MEANINGS["en"]["history"] in body["messages"][0]["content"]


def test_a_server_without_schema_support_is_called_without_one(judge):
    def faults(number, body):
        return "400" if "response_format" in body else None

    with ChatServer(always("history"), faults) as server:
        detector = ContradictionDetector.from_pretrained(judge(server, concurrency=1))
        assert detector.scan(chat(*TEXTS, "真的吗？", "真的"))[-1].label == "history"
    refused = [body for body in server.requests if "response_format" in body]
    assert len(refused) == 1 < len(server.requests)


def test_an_answer_without_a_label_leaves_only_its_reply_unchecked(judge, sample_chats, caplog):
    def answer(body):
        return "我不知道" if question_of(body) == TEXTS else '{"label": "history"}'

    with ChatServer(answer) as server:
        detector = ContradictionDetector.from_pretrained(judge(server))
        one, other = detector.batch([chat(*TEXTS), sample_chats[0]])
    assert (one.label, one.contradiction, one.checked, one.reason) == (None, None, False, NO_ANSWER)
    assert other.label == "history" and other.checked
    assert detector.classifier.usage()["unusable"] == 1
    assert len(server.requests) == 3, "it is asked twice"
    assert "'我不知道'" in caplog.text


# A rule that turns the probability 0.49 of a contradiction into one of more than 0.9.
SHIFTED = Rule(temperature=0.5, biases={"intra-sentence": 4.0}, threshold=0.2, prior=0.3)


def test_a_reply_without_a_usable_answer_is_never_called_a_contradiction(judge):
    with ChatServer(lambda body: "我不知道") as server:
        folder = judge(server)
        SHIFTED.save(folder / "judge.json")
        detector = ContradictionDetector.from_pretrained(folder)
        for settings in ({}, {"threshold": 0.0}, {"prior": 0.9}, {"windowing": "unstructured"}):
            verdict = detector.with_settings(**settings)(chat(*TEXTS))
            assert (verdict.label, verdict.checked) == (None, False), settings
        assert detector.check(["我没有养宠物"], TEXTS[1], "你养宠物吗？").reason == NO_ANSWER
        [one] = detector.classifier.classify([row_of(*TEXTS)])
        assert {one.label, one.argmax} == {"non-contradiction"} and one.scores["non-contradiction"] == 1
        cascade = CascadeClassifier(load_classifier(folder), load_classifier(folder), 0.0, 1.0)
        assert ContradictionDetector(cascade)(chat(*TEXTS)).reason == NO_ANSWER
        labels = folder / "labels.jsonl"
        write_jsonl(labels, [{"messages": CHAT, "label": "history"}])
        result = evaluate(detector, labels)
    assert (result["predictions"], result["unjudged"], result["probabilities"]) == ([0], 0, [[1, 0, 0, 0]])


def test_a_reply_with_usable_answers_about_some_turns_is_judged_by_them(judge):
    messages = chat(*TEXTS[:2], "天气好吗？", "晴天", *TEXTS[2:])

    def answer(body):
        return '{"label": "history"}' if question_of(body) == TEXTS else "我不知道"

    with ChatServer(answer) as server:
        detector = ContradictionDetector.from_pretrained(judge(server))
        verdict = detector(messages)
        ranked = detector.rerank(messages[:-1], ["我没养过猫呀", "它叫橘子"])
    assert (verdict.label, verdict.evidence, verdict.checked, verdict.reason) == ("history", (1,), False, NO_ANSWER)
    assert [(one.index, one.verdict.label) for one in ranked] == [(1, None), (0, "history")]


@pytest.mark.parametrize("fault", ["429", "drop"])
def test_nothing_is_lost_or_duplicated_if_every_third_row_fails_twice(judge, sample_repo, monkeypatch, fault):
    monkeypatch.setattr("contradiction.io.endpoint.LONGEST_WAIT", 0.001)
    rows = load_split(sample_repo, "4-class", "test").select(range(30))
    failing = {texts_of(row): 2 for row in rows.select(range(0, 30, 3))}

    def faults(number, body):
        failing[question_of(body)] = failing.get(question_of(body), 0) - 1
        return fault if failing[question_of(body)] >= 0 else None

    with ChatServer(scripted(rows), faults) as server:
        classifier = load_classifier(judge(server))
        progress = []
        labels = [prediction.label for prediction in classifier.classify(list(rows), on_batch=progress.append)]
    assert labels == [NAMES[label] for label in rows["label"]]
    assert sum(progress) == classifier.usage()["answers"] == len(rows)
    assert len(server.requests) == len(rows) + 20


CLASSIFY = """
import json, pathlib
from contradiction.methods.loading import load_classifier
load_classifier({folder!r}).classify(json.loads(pathlib.Path({rows!r}).read_text(encoding="utf-8")))
"""


def test_a_resumed_evaluation_requests_only_missing_answers(judge, sample_rows, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(sample_rows[:80]), encoding="utf-8")
    with ChatServer(scripted(sample_rows), seconds=0.02) as server:
        folder = judge(server, concurrency=2)
        process = start(CLASSIFY.format(folder=str(folder), rows=str(file)))
        wait_for(lambda: len(server.requests) >= 40, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.1)  # until the requests in progress have been counted
        before = len(server.requests)
        assert 40 <= before < 80
        with (folder / "answers.jsonl").open("ab") as kept:
            kept.write(b'{"key": "half of a line')
        classifier = load_classifier(folder)
        labels = [prediction.label for prediction in classifier.classify(sample_rows[:80])]
    assert labels == [NAMES[row["label"]] for row in sample_rows[:80]]
    used = classifier.usage()
    assert used["answers"] == 80
    # At most the requests in progress and the answer being written are requested twice.
    assert used["cached"] >= before - 4
    assert len(server.requests) - before == 80 - used["cached"]
    assert not any(row["b2"] in (folder / "answers.jsonl").read_text(encoding="utf-8") for row in sample_rows[:80])


def test_a_row_that_the_endpoint_refuses_stays_unchecked_also_when_it_comes_first(judge, sample_repo):
    rows = list(load_split(sample_repo, "4-class", "test").select(range(12)))
    refused = [texts_of(row) for row in rows[:2]]
    with ChatServer(scripted(rows), lambda number, body: "400" if question_of(body) in refused else None) as server:
        folder = judge(server, concurrency=1)
        for expected in (12, 2):  # afterwards the answers to the other rows are known
            server.requests.clear()
            predictions = load_classifier(folder).classify(rows)
            assert [prediction.truncation is None for prediction in predictions] == [False] * 2 + [True] * 10
            assert len(set(map(question_of, server.requests))) == expected


def test_an_endpoint_that_refuses_every_row_ends_the_evaluation_soon(judge, run, sample_repo):
    with ChatServer(always("history"), lambda number, body: "401") as server:
        code, _, err = run("evaluate", judge(server), "--data", sample_repo, "--yes")
    assert code == 2 and f"cdconv: {server.url}/chat/completions: HTTP 401" in err.splitlines()[1]
    rows = list(load_split(sample_repo, "4-class", "test"))
    with ChatServer(always("history"), lambda number, body: "400") as server:
        for count in (1, len(rows)):  # one row, and more than may be refused without an answer
            with pytest.raises(InputError, match="HTTP 400"):
                load_classifier(judge(server)).classify(rows[:count])
    assert len(server.requests) < 4 * llm_judge.REFUSALS < len(rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key": "sk-1"}, "api_key: .*the options are model, "),
        ({"timeout": float("inf")}, "timeout: .*less than or equal to 1000000"),
        ({"base_url": "http://x"}, r"base_url: .*\$OPENAI_BASE_URL"),
        ({"extra": {"stream": True}}, "extra holds 'stream'"),
        ({"language": "fr"}, "language: input should be 'zh' or 'en'"),
    ],
)
def test_a_file_with_a_wrong_or_secret_option_is_rejected(judge, options, message):
    with ChatServer(always("history")) as server, pytest.raises(InputError, match=message):
        load_classifier(judge(server, **options))
