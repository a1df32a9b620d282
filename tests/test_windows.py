"""Which earlier turns a reply is read against."""

from chats import chat

from contradiction.conversation import read_turns
from contradiction.inputs.windows import windows


def test_windowed_reads_each_earlier_turn_with_the_turn_judged():
    turns = read_turns(chat(*"甲乙丙丁戊己"))
    assert [(tuple(window.row.values()), window.turn) for window in windows(turns, 2)] == [
        (("甲", "乙", "戊", "己"), 0),
        (("丙", "丁", "戊", "己"), 1),
    ]
    assert [window.turn for window in windows(turns, 2, max_turns=1)] == [1]


def test_structured_reads_pairs_of_replies_and_unstructured_all_at_once():
    turns = read_turns(chat(*"甲乙丙丁戊己"))
    assert [tuple(window.row.values()) for window in windows(turns, 2, "structured")] == [
        ("", "乙", "", "己"),
        ("", "丁", "", "己"),
    ]
    [whole] = windows(turns, 2, "unstructured")
    assert tuple(whole.row.values()) == (("甲", "乙", "丙"), "丁", "戊", "己")
    assert whole.turn is None


def test_earlier_replies_without_words_are_left_out():
    turns = read_turns(chat("甲", "乙", "丙", "……", "戊", "己"))
    [window] = windows(turns, 2)
    assert window.turn == 0
    # What the user said to the reply that says nothing is not lost.
    assert tuple(window.row.values()) == ("甲", "乙", "丙\n戊", "己")
    [alone] = windows(read_turns(chat("甲", "……", "丙", "丁")), 1)
    assert alone.opening
    assert tuple(alone.row.values()) == ("", "", "甲\n丙", "丁")


def test_the_whole_history_is_one_text_with_a_separator_between_utterances(detector):
    turns = read_turns(chat(*"甲乙丙丁戊己"))
    [whole] = windows(turns, 2, "unstructured")
    separator = detector.classifier.backend.tokenizer.sep_token
    assert detector.classifier.model_input(whole.row) == {"text": separator.join("甲乙丙丁戊"), "text_pair": "己"}
