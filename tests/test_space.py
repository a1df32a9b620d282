"""The demo page and the metric's page, as real processes on 127.0.0.1, seen by a client and by a browser."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

from contradiction import ContradictionDetector, Verdict, page, shipped
from contradiction.backbones.start import start
from contradiction.classifiers.checkpoint import CheckpointClassifier
from contradiction.classifiers.scoring import load_checkpoint
from contradiction.data.sources import SAMPLE
from contradiction.errors import InputError
from contradiction.labels import HISTORY, INTRA, LABELS, NON_CONTRADICTION, STAGES
from contradiction.recipes import Recipe

ROOT = page.APP.parents[1]
CHROMIUM = Path("/usr/bin/chromium")
CDCONV = Path(sys.executable).with_name("cdconv")
COLUMNS = ("u1", "b1", "u2", "b2")
ROWS = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
CHATS = [tuple(row[column] for column in COLUMNS) for row in ROWS]
ENVIRONMENT = os.environ | {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

browser_test = pytest.mark.browser
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:gradio")


def messages(utterances):
    roles = ("user", "assistant", "user", "assistant")
    return [{"role": role, "content": text} for role, text in zip(roles, utterances, strict=True)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def served(command, port, log: Path, **environment):
    """A page in a process of its own, from its first answer to its end by its own pid."""
    url = f"http://127.0.0.1:{port}/"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=ENVIRONMENT | environment, cwd=ROOT)
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"no answer from {url}:\n{log.read_text(encoding='utf-8')}")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)


def random_model(folder: Path, task: str) -> Path:
    """A tiny model with random weights; centred on the sample and spread, or it would say the same of all."""
    import torch

    torch.manual_seed(5)
    model, tokenizer = start(Recipe.load("tiny"), LABELS[task], (text for chat in CHATS for text in chat))
    with torch.no_grad():
        verdicts = ContradictionDetector(CheckpointClassifier(model, tokenizer)).batch(
            [messages(chat) for chat in CHATS]
        )
        logits = torch.tensor([[verdict.scores[label] for label in LABELS[task]] for verdict in verdicts]).log()
        spread = 2 / logits.std(0).mean()
        model.classifier.weight.mul_(spread)
        model.classifier.bias.sub_(logits.mean(0)).mul_(spread)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("models") / "random-4-class", "4-class")


@pytest.fixture(scope="module")
def facade(model):
    """What the façade says of a chat; one by one, because batching moves the last bits, and this head is steep."""
    detector = ContradictionDetector.from_pretrained(model)
    return lambda chat: detector(messages(chat))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("logs") / "space.log"


@pytest.fixture(scope="module")
def url(model, log):
    port = free_port()
    with served([CDCONV, "space", "--model", model, "--port", str(port)], port, log) as address:
        yield address


@pytest.fixture(scope="module")
def client(url):
    from gradio_client import Client

    return Client(url, verbose=False)


@pytest.fixture(scope="module")
def app() -> ModuleType:
    return page.app()


@pytest.fixture(scope="module")
def wording(app) -> ModuleType:
    return sys.modules[app.headline.__module__]


@pytest.fixture(scope="module")
def bubbles(app) -> ModuleType:
    return app.bubbles


def probabilities(answer):
    return {each["label"]: each["confidence"] for each in answer[1]["confidences"]}


# The endpoint


def test_the_public_endpoints_are_judge_and_scan(client):
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    names = {path: [each["parameter_name"] for each in its["parameters"]] for path, its in endpoints.items()}
    assert names == {"/judge": list(COLUMNS), "/scan": ["chat", "threshold"]}


def test_a_whole_chat_gets_the_verdicts_of_the_facade(client, model):
    from dataclasses import asdict

    chat = [text for each in CHATS[:3] for text in each]
    answer = client.predict("\n".join(chat), 0.4, api_name="/scan")
    detector = ContradictionDetector.from_pretrained(model, threshold=0.4)
    roles = ("user", "assistant")
    verdicts = detector.scan([{"role": roles[index % 2], "content": text} for index, text in enumerate(chat)])
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
    assert "**Not all was checked:** the first " in answer[0]


def test_a_reply_without_words_gets_no_verdict(client):
    answer = client.predict("你好", "你好", "再见", "？！", api_name="/judge")
    assert answer[0] == "### Nothing to judge\nThe reply holds no words."
    assert not answer[1] or answer[1]["label"] is None
    assert "clash" not in answer[2] and "fine" not in answer[2]


def test_the_terminal_says_the_address_and_no_advice_of_gradio(client, url, log):
    said = log.read_text(encoding="utf-8")
    assert f"The page is at {url} (Ctrl+C ends it)" in said
    assert "share" not in said


# The parts of the page


def test_the_replies_of_the_examples_are_what_their_names_say_and_of_all_categories(app):
    shown = app.examples()
    labels = {chat: LABELS["4-class"][row["label"]] for chat, row in zip(CHATS, ROWS, strict=True)}
    assert [len(replies) >= 3 for _, replies in shown] == [True] * 3
    for context, replies in shown:
        assert all(labels[*context, reply] == name for name, reply in replies.items())
    assert {name for _, replies in shown for name in replies} == set(LABELS["4-class"])


@pytest.mark.parametrize(
    ("header", "language"),
    [
        (None, "ENGLISH"),
        ("*", "ENGLISH"),
        ("en-US,en;q=0.9,zh-CN;q=0.8", "ENGLISH"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "CHINESE"),
        ("zh-TW;q=1", "CHINESE"),
    ],
)
def test_a_visitor_is_answered_in_the_language_that_comes_first(wording, header, language):
    import gradio

    request = gradio.Request(headers={} if header is None else {"accept-language": header})
    assert wording.words_of(request) is getattr(wording, language)


def test_both_languages_say_the_same_things(wording):
    assert list(wording.CHINESE) == list(wording.ENGLISH)
    for key, english in wording.ENGLISH.items():
        blanks = set(re.findall("{(.*?)}", wording.CHINESE[key])) - {"gloss"}
        assert blanks == set(re.findall("{(.*?)}", english)), key
    assert set(wording.GLOSSES) == {*LABELS["2-class"], *LABELS["4-class"]}


@pytest.mark.parametrize(
    "utterances",
    [
        ("你好", "你好", "再见", "？！"),
        ("你好", "你好", "再见", "hello"),
        ("你好", "你好", "再见", "龘"),
        ("你好", "hello", "再见", "你好"),
        ("你好", "龘", "再见", "你好"),
        ("好" * 2000, "hello", "再见", "你好"),
        ("你好", "你好", "再见", "好" * 2000),
        ("好" * 2000, "你好", "再见", "好" * 2000),
    ],
)
def test_what_was_not_read_is_said_in_chinese_too(wording, facade, utterances):
    said = wording.headline(facade(utterances), wording.CHINESE)
    assert any(words in said for words in ("无从判断", "并非全部"))
    assert not re.search("[A-Za-z]{2}|[;:,]", said)


def test_a_label_that_is_not_the_most_probable_is_explained(wording):
    scores = {NON_CONTRADICTION: 0.5, HISTORY: 0.4}
    note = "Another label is more probable; the decision rule calls rare kinds from lower probabilities."
    assert note == wording.headline(Verdict(HISTORY, 0.4, scores)).split("\n\n")[1]
    assert note not in wording.headline(Verdict(NON_CONTRADICTION, 0.5, scores))


@pytest.fixture(scope="module")
def shipped_detector():
    return ContradictionDetector.from_pretrained(shipped.FOLDER)


def test_the_shipped_detector_gets_an_example_of_each_category_right_and_the_page_says_what_it_says(
    app, shipped_detector
):
    said = [
        (name, shipped_detector(messages((*context, reply))).label, reply)
        for context, replies in app.examples()
        for name, reply in replies.items()
    ]
    assert {name for name, label, _ in said if name == label} == set(LABELS["4-class"])
    shown = [
        label
        for part in app.build(shipped_detector).config["components"]
        for label in part["props"].get("sample_labels") or []
        if " → " in label  # else of a whole chat
    ]
    assert shown == [f"{name}: {reply} → {label}" for name, label, reply in said]


def test_the_card_of_the_space_prints_what_the_shipped_detector_says(wording, shipped_detector):
    text = (ROOT / "space" / "README.md").read_text(encoding="utf-8")
    utterances = json.loads(f"[{re.search(r'page.predict.(.*?), api_name', text, flags=re.DOTALL)[1]}]")
    assert f"print(headline)  # {wording.headline(shipped_detector(messages(utterances)))}\n" in text


def test_the_judged_reply_and_what_it_contradicts_are_outlined_and_named(wording, bubbles):
    chat = {index: (each["role"], each["content"]) for index, each in enumerate(messages(("a", "b", "<b>c</b>", "d")))}

    def shown(verdict):
        return bubbles.chat_html(chat, COLUMNS, bubbles.of_last(verdict, 3, wording.ENGLISH), wording.ENGLISH)

    history = shown(Verdict(HISTORY, 0.9, {HISTORY: 0.9}, evidence=(1,)))
    assert '<p class="bot clash"><small>b1 · bot · contradicted</small><span lang="zh-CN">b</span></p>' in history
    assert '<p class="bot clash"><small>b2 · bot · judged</small><span lang="zh-CN">d</span></p>' in history
    assert '<p class="user "><small>u2 · user</small><span lang="zh-CN">&lt;b&gt;c&lt;/b&gt;</span></p>' in history
    fine = shown(Verdict(NON_CONTRADICTION, 0.9, {NON_CONTRADICTION: 0.9}))
    assert "clash" not in fine and fine.count("fine") == 1
    in_part = Verdict(NON_CONTRADICTION, 0.9, {NON_CONTRADICTION: 0.9}, checked=False, reason="")
    assert "fine" not in shown(in_part)


def test_in_a_whole_chat_each_reply_says_what_it_is_judged_to_be(wording, bubbles):
    clash = Verdict(HISTORY, 0.6, {NON_CONTRADICTION: 0.3, INTRA: 0.1, HISTORY: 0.6}, evidence=(1,), reply=(5,))
    fine = Verdict(NON_CONTRADICTION, 0.8, {NON_CONTRADICTION: 0.8, INTRA: 0.1, HISTORY: 0.1}, reply=(3,))
    opening = Verdict(None, None, {}, checked=False, reason="messages[1] holds no words", reply=(1,))
    names = [str(number) for number in range(1, 7)]
    notes = bubbles.of_all([opening, fine, clash], names, wording.ENGLISH)
    assert [notes[index] for index in (1, 3, 5)] == [
        ("hit", "not judged · contradicted by 6"),
        ("", "contradiction 20%"),
        ("clash", "history, contradiction 70% · contradicts 2"),
    ]
    assert notes[0] == ("", "")
    said = wording.summary([opening, fine, clash], wording.ENGLISH, names)
    assert said == "### Contradictions: 1 of 2 judged replies\n\n1 not judged: 2 holds no words."
    assert wording.summary([opening], wording.ENGLISH, names).startswith("### No reply was judged\n")
    assert bubbles.of_all([clash], names, wording.CHINESE)[5] == ("clash", "历史矛盾，矛盾概率 70% · 与 2 矛盾")


def test_what_a_visitor_wrote_is_no_markdown_and_names_no_message(wording):
    reason = "messages[0] holds what is no text and was not read: 'messages[99] ![](http://192.0.2.1/x.png)<b>'"
    verdict = Verdict(NON_CONTRADICTION, 0.9, {}, checked=False, reason=reason)
    said = wording.because(verdict, wording.ENGLISH, ["message 1"])
    assert said.startswith("message 1 holds ")
    assert not set("[]!<>") & set(said)


def test_a_threshold_calls_what_the_library_calls(app, model, wording):
    chat = [text for each in CHATS[:6] for text in each]
    scanned = app.scan(ContradictionDetector.from_pretrained(model), "\n".join(chat), wording.ENGLISH)
    roles = ("user", "assistant")
    spoken = [{"role": roles[index % 2], "content": text} for index, text in enumerate(chat)]
    for threshold in (0.0, 0.3, 0.6, 0.9):
        theirs = ContradictionDetector.from_pretrained(model, threshold=threshold).scan(spoken)
        for ours, verdict in zip(scanned.called(threshold), theirs, strict=True):
            assert (ours.label, ours.evidence, ours.reply) == (verdict.label, verdict.evidence, verdict.reply)
            assert ours.score == pytest.approx(verdict.score)


@pytest.mark.parametrize("threshold", [None, "much", 1.5])
def test_a_threshold_that_is_none_is_no_traceback(client, log, threshold):
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError):
        client.predict("你好\n在的", threshold, api_name="/scan")
    assert "Traceback" not in log.read_text(encoding="utf-8")


def test_the_chats_shown_contradict_themselves_where_the_shipped_detector_says_so(app, shipped_detector, wording):
    from contradiction.chats import pasted

    chats = app.CHATS.read_text(encoding="utf-8").strip().split("\n\n")
    found = [app.scan(shipped_detector, each, wording.ENGLISH).called(app.THRESHOLD) for each in chats]
    called = [[verdict for verdict in verdicts if verdict.is_contradiction] for verdicts in found]
    assert [len(each) for each in called] == [1, 1, 1, 1, 2]  # the last one has a false alarm, and the page says so
    assert [len(pasted.read(each)) % 2 for each in chats] == [0] * 5


def test_every_label_of_a_detector_has_a_headline(wording):
    for label in {*LABELS["2-class"], *LABELS["4-class"]}:
        assert wording.headline(Verdict(label, 0.5, {label: 0.5})) == f"### {wording.ENGLISH[label]} (50%)"


def test_a_2_class_detector_gets_a_page_too(app, tmp_path):
    from gradio_client import Client

    detector = ContradictionDetector.from_pretrained(random_model(tmp_path / "random-2-class", "2-class"))
    demo, url = app.serve(detector, "127.0.0.1", free_port())
    try:
        answer = Client(url, verbose=False).predict(*CHATS[0], api_name="/judge")
    finally:
        demo.close(verbose=False)
    assert probabilities(answer) == pytest.approx(detector(messages(CHATS[0])).scores, abs=1e-5)
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
        f"import sys; sys.modules.update({others}); sys.path.insert(0, {str(page.APP.parent)!r}); "
        f"import app; app.build(app.ContradictionDetector.from_pretrained({str(model)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# What can be mended is one line on stderr, and exit code 2


def refused(*arguments, python=()) -> str:
    command = [*(python or [CDCONV]), "space", *map(str, arguments)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("cdconv: ")
    return done.stderr.removeprefix("cdconv: ").strip()


def test_a_taken_port_is_one_clear_line(model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused("--model", model, "--port", port)
    assert message == f"127.0.0.1:{port}: address already in use; --host and --port choose another address"


def test_a_host_that_is_not_this_machine_is_one_clear_line(model):
    message = refused("--model", model, "--host", "192.0.2.1", "--port", free_port())
    assert message.endswith("cannot assign requested address; --host and --port choose another address")


def test_a_missing_model_is_one_clear_line(tmp_path):
    message = refused("--model", tmp_path, "--port", free_port())
    assert message == f"{tmp_path}: the folder holds no model (no config.json); `cdconv train` writes one"


def test_a_missing_gradio_is_one_clear_line(model):
    code = "import sys; sys.modules['gradio'] = None; from contradiction.cli import main; main()"
    message = refused("--model", model, "--port", free_port(), python=(sys.executable, "-c", code))
    assert message == 'the page needs gradio: pip install "cdconv[space]"'


# In the browser


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is absent")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """A fresh tab, which must not have spoken to another host nor complained by the end of the test."""
    tab = chromium.new_page(viewport={"width": 1280, "height": 900})
    tab.set_default_timeout(15_000)
    hosts, complaints = set(), []
    tab.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield tab
    tab.close()
    assert hosts - {None} == {"127.0.0.1"}  # None: data: URLs
    assert complaints == []


def box(tab, column):
    return tab.get_by_label(f"{column} · ")


def judge(tab, utterances):
    for column, text in zip(COLUMNS, utterances, strict=True):
        box(tab, column).fill(text)
    tab.get_by_role("button", name="Judge the last reply").click()


@browser_test
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_visitor_fills_four_boxes_and_reads_the_verdict(tab, url, facade, wording, tmp_path, theme):
    from PIL import Image

    chat, verdict = next((chat, verdict) for chat in CHATS if (verdict := facade(chat)).label == HISTORY)
    tab.goto(f"{url}?__theme={theme}")
    judge(tab, chat)
    tab.locator("#verdict", has_text=wording.ENGLISH[HISTORY]).wait_for()
    assert f"({verdict.score:.0%})" in tab.locator("#verdict").inner_text()
    assert [text.split("\n")[-1] for text in tab.locator(".chat p").all_inner_texts()] == list(chat)
    assert tab.locator(".chat .clash small").all_inner_texts() == ["b1 · bot · contradicted", "b2 · bot · judged"]
    shown = tab.locator("#scores").inner_text()
    assert all(label in shown for label in LABELS["4-class"])
    shot = tmp_path / f"{theme}.png"
    tab.screenshot(path=shot)
    with Image.open(shot) as image:
        assert image.size == (1280, 900)
        assert len(image.convert("RGB").getcolors(maxcolors=1 << 20)) > 100


@browser_test
def test_a_click_on_an_example_fills_the_boxes_and_judges_it(tab, url, facade, app, wording):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(url)
    context, replies = app.examples()[1]
    for label, reply in replies.items():
        tab.get_by_role("button", name=f"{label}: {reply}").click()
        tab.locator(".chat p", has_text=reply).wait_for()
        assert [box(tab, column).input_value() for column in COLUMNS] == [*context, reply]
        assert wording.ENGLISH[facade((*context, reply)).label] in tab.locator("#verdict").inner_text()
    tab.wait_for_function("document.getElementById('verdict').getBoundingClientRect().top >= 0")  # scrolled to
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@browser_test
def test_markup_in_an_utterance_is_shown_as_text(tab, url):
    attack = "<img src=x onerror=\"alert('owned')\"><script>alert('owned')</script>"
    tab.goto(url)
    judge(tab, (attack, attack, attack, attack))
    tab.locator(".chat p").first.wait_for()
    assert all(text.endswith(attack) for text in tab.locator(".chat p").all_inner_texts())
    assert tab.locator(".chat img, .chat script").count() == 0


@browser_test
def test_an_empty_box_is_told_where_the_verdict_was_and_enter_judges_once_it_is_filled(tab, url, app):
    tab.goto(url)
    judge(tab, CHATS[0])
    tab.locator(".chat p").first.wait_for()
    judge(tab, ("", *CHATS[0][1:3], ""))
    tab.locator("#verdict", has_text="u1, b2 are empty; all four utterances are needed").wait_for()
    tab.locator(".chat").wait_for(state="detached")
    assert "%" not in tab.locator("#verdict").inner_text() + tab.locator("#scores").inner_text()
    box(tab, "u1").fill(CHATS[0][0])
    box(tab, "b2").fill(CHATS[0][3])
    box(tab, "b2").press("Enter")
    tab.locator(".chat p", has_text=CHATS[0][3]).wait_for()
    assert "empty" not in tab.locator("#verdict").inner_text()


@browser_test
def test_the_keyboard_clears_boxes_and_verdict(tab, url):
    tab.goto(url)
    judge(tab, CHATS[0])
    tab.locator(".chat p").first.wait_for()
    tab.get_by_role("button", name="Judge the last reply").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    tab.locator("#verdict", has_text="The verdict appears here").wait_for()
    tab.locator(".chat").wait_for(state="detached")
    assert [box(tab, column).input_value() for column in COLUMNS] == [""] * 4
    assert "%" not in tab.locator("#scores").inner_text()
    tab.keyboard.type("你好")  # the first box has the focus
    assert box(tab, "u1").input_value() == "你好"


@browser_test
def test_a_chinese_visitor_reads_chinese(chromium, url, wording, facade):
    words = wording.CHINESE
    with chromium.new_context(locale="zh-CN").new_page() as tab:
        tab.set_default_timeout(15_000)
        tab.goto(url)
        tab.get_by_role("button", name=words["judge"]).wait_for()
        tab.wait_for_function("title => document.title === title", arg=words["title"])
        assert "__i18n__" not in tab.inner_text("body")
        for english in ("Judge", "Clear", "verdict", "Examples", "Limits", "user", "bot"):
            assert english not in tab.inner_text("body")
        for column, text in zip(COLUMNS, CHATS[0], strict=True):
            tab.get_by_label(words[column]).fill(text)
        tab.get_by_role("button", name=words["judge"]).click()
        tab.locator("#verdict", has_text=words[facade(CHATS[0]).label]).wait_for()
        assert tab.locator(".chat small").first.inner_text() == "u1 · 用户"
        tab.get_by_label(words["u1"]).fill("")
        tab.get_by_role("button", name=words["judge"]).click()
        tab.locator("#verdict", has_text="u1 为空；四句话都要填写").wait_for()
        tab.get_by_role("button", name=words["clear"]).click()
        tab.locator("#verdict", has_text="判断结果显示在这里").wait_for()


@browser_test
def test_a_visitor_pastes_a_chat_and_moves_the_threshold(tab, url, app, model, wording):
    tab.goto(url)
    tab.get_by_role("tab", name="A whole chat").click()
    tab.locator("#verdicts[aria-live=polite]").wait_for()
    text = tab.locator("#text textarea")
    button = tab.get_by_role("button", name="Judge every reply")
    button.click()
    tab.locator("#verdicts", has_text="Not judged").wait_for()
    chat = [line for each in CHATS[:2] for line in each]
    text.fill('[{"role": "user", "content": "你好"}, {"role": "![](http://192.0.2.1/x.png)<b>", "content": "你好"}]')
    button.click()
    tab.locator("#verdicts", has_text="![](http://192.0.2.1/x.png)<b>").wait_for()  # shown, and not fetched
    text.fill("\n".join(chat))
    button.click()
    tab.locator("#whole .chat p").nth(7).wait_for()
    assert [each.split("\n")[-1] for each in tab.locator("#whole .chat p").all_inner_texts()] == chat
    counts = []
    scanned = app.scan(ContradictionDetector.from_pretrained(model), "\n".join(chat), wording.ENGLISH)
    for key, threshold in (("Home", 0.1), ("End", 0.9)):
        tab.get_by_role("slider").press(key)  # which decides again by itself
        counts.append(sum(bool(verdict.is_contradiction) for verdict in scanned.called(threshold)))
        tab.locator("#verdicts", has_text=f"Contradictions: {counts[-1]} of 4").wait_for()
        assert tab.locator("#whole .clash").count() == counts[-1]
    assert counts[0] > counts[1]
    tab.get_by_role("button", name="Clear").locator("visible=true").click()
    tab.locator("#whole .chat").wait_for(state="detached")
    assert text.input_value() == ""


@browser_test
def test_the_page_of_the_metric_scores_its_example(tab, tmp_path):
    port = free_port()
    command = [sys.executable, "evaluate_metric/app.py"]
    address = {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    with served(command, port, tmp_path / "metric.log", **address) as url:
        tab.goto(url)
        tab.get_by_role("button", name="Score").click()
        tab.get_by_text("83.3").locator("visible=true").first.wait_for()  # the accuracy: five of six
        tab.screenshot(path=tmp_path / "metric.png", full_page=True)
        shown = tab.inner_text("body")
        assert all(name in shown for name in ("macro-F1", "merged to 2-class", *LABELS["4-class"]))
        tab.get_by_label("Predictions", exact=True).fill("0, 3")
        tab.get_by_role("button", name="Score").click()
        tab.get_by_text("lengths differ: 6 references, 2 predictions").wait_for()
    assert "Traceback" not in (tmp_path / "metric.log").read_text(encoding="utf-8")


def test_a_page_of_one_stage_names_its_labels_and_what_judges_no_reply_is_refused(app, random_model, wording):
    model, tokenizer = load_checkpoint(random_model("2-class"))
    model.config.id2label = dict(enumerate(STAGES[HISTORY]))
    stage = ContradictionDetector(CheckpointClassifier(model, tokenizer, view=HISTORY, name="stage"))
    assert app.build(stage)
    assert HISTORY in wording.translations(stage.labels, stage.columns, "stage").translations["en"]["introduction"]
    assert wording.headline(Verdict("other", 0.9, {"other": 0.9, HISTORY: 0.1}))
    model.config.id2label = dict(enumerate(LABELS["persona"]))
    with pytest.raises(InputError, match="none of them is a contradiction"):
        app.build(ContradictionDetector(CheckpointClassifier(model, tokenizer, view="flatten", name="persona")))
