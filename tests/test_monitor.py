"""The monitor follows a chat message by message, agrees with the detector, has bounded memory, and can be resumed."""

import copy
import json
import pickle
import re
import shutil

import pytest
from helpers.chats import CHAT, chat
from helpers.recording import recording
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import MAX_TURNS
from contradiction.monitor import Monitor

TEXTS = ("你养猫吗？", "养了一只橘猫", "我没养过猫呀", "我喜欢喝茶", "", " ", "……", "hello there", "很" * 80)
IMAGE = [{"type": "text", "text": "你看"}, {"type": "image_url", "image_url": {}}]
# Mostly the two sides, so that there are turns.
ROLES = st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool"])
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]}
MESSAGES = st.just(CALL) | st.fixed_dictionaries(
    {"role": ROLES, "content": st.sampled_from(TEXTS) | st.just(IMAGE)},
)
QUICKLY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def counting(random_model):
    return recording(random_model("4-class"))


def expected(detector, messages, max_turns):
    """The verdict of the detector on all messages so far, if the last one is a reply."""
    if messages[-1]["role"] != "assistant" or messages[-1] is CALL:
        return None
    return detector.with_settings(max_turns=max_turns)(messages)


@pytest.mark.parametrize("windowing", ["windowed", "structured", "unstructured"])
@QUICKLY
@given(messages=st.lists(MESSAGES, min_size=1, max_size=14), max_turns=st.integers(1, 4), stop=st.integers(0, 13))
def test_a_monitor_agrees_with_the_detector_on_all_messages_so_far(detector, windowing, messages, max_turns, stop):
    judge = detector.with_settings(windowing=windowing, threshold=0.3)
    monitor = judge.monitor(max_turns)
    for index, message in enumerate(messages):
        if index == stop:  # saved here and resumed
            monitor = Monitor.from_json(judge, monitor.to_json())
        assert monitor.add(message) == expected(judge, messages[: index + 1], max_turns)
    assert len(monitor) == len(messages)


def test_only_the_windows_of_the_new_reply_are_read(counting):
    monitor = counting.monitor(3)
    for message in chat(*["你养猫吗？", "养了一只橘猫"] * 6):
        monitor.add(message)
    # The first reply is read alone, and later ones with each earlier turn, but never with more than three.
    assert counting.classifier.counts() == [1, 1, 2, 3, 3, 3]


def test_memory_is_bounded_for_any_chat_length(counting):
    monitor = counting.monitor(2)
    sizes = []
    for number in range(120):
        for message in chat(f"第{number % 10}次", "养了一只橘猫"):
            monitor.add(message)
        sizes.append(len(monitor.to_json()))
    assert sizes[-1] - sizes[10] < 20, "only the numbers grow, by a digit or two"
    state = json.loads(monitor.to_json())
    assert (state["messages"], state["dropped"], len(state["turns"])) == (240, 117, 3)


def test_the_bound_comes_from_the_settings_or_a_default(detector):
    assert detector.monitor().max_turns == MAX_TURNS
    assert detector.with_settings(max_turns=7).monitor().max_turns == 7
    assert detector.with_settings(max_turns=7).monitor(3).max_turns == 3
    with pytest.raises(InputError, match="max_turns 0; .*1 or more"):
        detector.monitor(0)


def test_an_invalid_message_and_a_failing_model_leave_the_monitor_unchanged(counting):
    messages = chat("你养猫吗？", "养了一只橘猫", "叫什么？", "我没养过猫呀")
    monitor = counting.monitor(1)
    for turn in messages[:3]:
        monitor.add(turn)
    before = monitor.to_json()
    with pytest.raises(InputError, match=r"messages\[3\]: role 'bot'; allowed are user"):
        monitor.add({"role": "bot", "content": "好"})
    assert monitor.to_json() == before
    counting.classifier.broken = True
    with pytest.raises(RuntimeError):
        monitor.add(messages[3])
    assert monitor.to_json() == before
    counting.classifier.broken = False
    assert monitor.add(messages[3]).reply == (3,)


def test_a_monitor_is_saved_as_json_and_cannot_be_pickled(detector, tmp_path):
    path, monitor = tmp_path / "chat.json", detector.monitor()
    monitor.add(CHAT[0])
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="to_json"):
            take(monitor)
    monitor.save(path)
    assert Monitor.load(detector, path).to_json() == monitor.to_json()
    path.unlink()
    for place in (path, tmp_path):
        with pytest.raises(InputError, match=f"^{re.escape(str(place))}: no saved monitor can be read there"):
            Monitor.load(detector, place)
    half = monitor.to_json()[:-9].encode()
    changes = {"version": 2}, {"messages": -5}, {"messages": 0}, {"dropped": 1}, {"turns": []} | {"dropped": 1}
    others = (json.dumps({**json.loads(monitor.to_json()), **change}) for change in changes)
    for content in (half, b'{"messages": []}', b"null", b"[" * 200_000, b"\xff\xfe", *map(str.encode, others)):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"chat\.json: .*(saved monitor|utf-8)"):
            Monitor.load(detector, path)


def test_a_saved_monitor_continues_with_a_copy_of_the_model_elsewhere(detector, two_class, random_model, tmp_path):
    monitor = detector.monitor()
    monitor.add(CHAT[0])
    text, folder = monitor.to_json(), random_model("4-class")
    assert str(folder.parent) not in text
    copied = shutil.copytree(folder, tmp_path / "elsewhere" / "another-name")
    assert len(Monitor.from_json(ContradictionDetector.from_pretrained(copied), text)) == 1
    with pytest.raises(InputError, match="saved with another model"):
        Monitor.from_json(two_class, text)
