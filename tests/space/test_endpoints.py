"""The demo page as a real process, asked by a client; and what it needs to start."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from chats import chat as messages
from serving import CHATS, COLUMNS, ENVIRONMENT, ROOT, free_port, probabilities

from contradiction import ContradictionDetector
from contradiction.labels import LABELS, NON_CONTRADICTION
from contradiction.paths import SPACE

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")


def test_the_public_endpoints_are_judge_and_scan(client):
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    names = {path: [each["parameter_name"] for each in its["parameters"]] for path, its in endpoints.items()}
    assert names == {"/judge": list(COLUMNS), "/scan": ["chat", "threshold"]}


def test_a_whole_chat_gets_the_verdicts_of_the_facade(client, model):
    from dataclasses import asdict

    chat = [text for each in CHATS[:3] for text in each]
    detector = ContradictionDetector.from_pretrained(model)
    threshold = sorted(each.probability for each in detector.scan(messages(*chat)))[3] - 1e-4
    verdicts = detector.with_settings(threshold=threshold).scan(messages(*chat))
    answer = client.predict("\n".join(chat), threshold, api_name="/scan")
    assert [(each["label"], each["reply"]) for each in answer] == [
        (each.label, [2 * number + 1]) for number, each in enumerate(verdicts)
    ]
    assert {NON_CONTRADICTION} < {each["label"] for each in answer}
    for each, verdict in zip(answer, verdicts, strict=True):
        assert set(each) == set(asdict(verdict))
        assert each["scores"] == pytest.approx(verdict.scores, abs=1e-5)
        assert each["evidence"] == list(verdict.evidence)


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        (" \n", "the chat is empty"),
        ("好" * 10_001, "it has 10,001 characters; at most 10,000 are allowed"),
        ("好\n" * 101, "it has 101 messages; at most 100 are allowed"),
        ('[{"role": "user"}]', "messages[0] "),
        ("[{你好", "not JSON ("),
        ('{"![](http://192.0.2.1/x.png)": 1}', "an object with the key ![]("),
    ],
)
def test_what_is_no_chat_is_one_clear_message(client, log, chat, message):
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError) as error:
        client.predict(chat, 0.6, api_name="/scan")
    assert str(error.value).startswith(message)
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_twenty_calls_at_once_get_the_verdicts_of_the_facade(client, facade, wording):
    chats = CHATS[:: len(CHATS) // 20][:20]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda chat: client.predict(*chat, api_name="/judge"), chats))
    assert {facade(chat).label for chat in chats} == set(LABELS["4-class"])
    for chat, answer in zip(chats, answers, strict=True):
        expected = facade(chat)
        assert answer[1]["label"] == expected.label
        assert probabilities(answer) == pytest.approx(expected.scores, abs=1e-5)
        assert answer[0] == wording.headline(expected)
        assert all(text in answer[2] for text in chat)


@pytest.mark.parametrize(
    ("utterances", "message"),
    [
        (("", "b", "c", "d"), "u1 is empty; all four utterances are needed"),
        (("a", "b", " \n　", "d"), "u2 is empty; all four utterances are needed"),
        (("", " ", "c", ""), "u1, b1, b2 are empty; all four utterances are needed"),
        (("a", "b", "c", "好" * 2001), "b2 has 2,001 characters; at most 2,000 are allowed"),
        (("", "b", "好" * 2001, "d"), "u1 is empty; all four utterances are needed; u2 has 2,001 characters; "),
    ],
)
def test_an_unusable_utterance_is_one_clear_message(client, log, utterances, message):
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError) as error:
        client.predict(*utterances, api_name="/judge")
    assert str(error.value).startswith(message)
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_two_thousand_characters_are_taken_and_the_page_says_what_was_not_read(client):
    answer = client.predict("好" * 2000, "好", "好", "你好", api_name="/judge")
    assert "**Not all was checked:** only the last tokens of the history were read" in answer[0]


def test_a_reply_without_words_gets_no_verdict(client):
    answer = client.predict("你好", "你好", "再见", "？！", api_name="/judge")
    assert answer[0] == "### Nothing to judge\nThe reply holds no words."
    assert not answer[1] or answer[1]["label"] is None
    assert "clash" not in answer[2] and "fine" not in answer[2]


def test_the_terminal_says_the_address_and_no_advice_of_gradio(client, url, log):
    said = log.read_text(encoding="utf-8")
    assert f"The page is at {url} (Ctrl+C ends it)" in said
    assert "share" not in said


@pytest.mark.parametrize("threshold", [None, "much", 1.5])
def test_a_threshold_that_is_none_is_no_traceback(client, log, threshold):
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError):
        client.predict("你好\n在的", threshold, api_name="/scan")
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_a_2_class_detector_gets_a_page_too(app, random_model):
    from gradio_client import Client

    detector = ContradictionDetector.from_pretrained(random_model("2-class"))
    demo, url = app.serve(detector, "127.0.0.1", free_port())
    try:
        answer = Client(url, verbose=False).predict(*CHATS[0], api_name="/judge")
    finally:
        demo.close(verbose=False)
    assert probabilities(answer) == pytest.approx(detector(messages(*CHATS[0])).scores, abs=1e-5)
    assert set(probabilities(answer)) == set(LABELS["2-class"])


# The Space as a folder


def test_the_card_of_the_space_names_the_versions_that_are_installed():
    import gradio
    from huggingface_hub import SpaceCard

    card = SpaceCard.load(ROOT / "space" / "README.md").data
    assert (card.sdk, card.sdk_version, card.license) == ("gradio", gradio.__version__, "apache-2.0")
    assert (ROOT / "space" / card.app_file).is_file()
    assert len(card.short_description) <= 60  # the Hub refuses more
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert set((ROOT / "space" / "requirements.txt").read_text(encoding="utf-8").split()) <= set(pinned)


def test_the_page_needs_no_more_than_its_requirements(model):
    others = dict.fromkeys("accelerate cdconv datasets evaluate pyarrow scipy sklearn".split())
    code = (
        f"import sys; sys.modules.update({others}); sys.path.insert(0, {str(SPACE)!r}); "
        f"import app; app.build(app.ContradictionDetector.from_pretrained({str(model)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# A mistake is one line on stderr, and exit code 2


@pytest.fixture
def refused(run):
    """Calls `cdconv space` and gives what it says on stderr."""

    def call(*arguments) -> str:
        code, out, err = run("space", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("cdconv: ")
        return err

    return call


def test_a_taken_port_is_one_clear_line(refused, model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused("--model", model, "--port", port)
    assert f"127.0.0.1:{port}: address already in use; --host and --port" in message


def test_a_host_that_is_not_this_machine_is_one_clear_line(refused, model):
    message = refused("--model", model, "--host", "192.0.2.1", "--port", free_port())
    assert "cannot assign requested address; --host and --port" in message


def test_a_missing_model_is_one_clear_line(refused, tmp_path):
    message = refused("--model", tmp_path, "--port", free_port())
    assert f"{tmp_path}: " in message and "config.json" in message


def test_a_missing_gradio_is_one_clear_line(refused, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert 'pip install "cdconv[space]"' in refused("--model", model, "--port", free_port())
