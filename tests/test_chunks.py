"""Verdicts on many chats: judged in chunks, counted, and rounded."""

import re

from helpers.chats import CHAT, line

from contradiction.chats import chunks
from contradiction.chats.entries import Chats, Entry
from contradiction.detector import ContradictionDetector
from contradiction.labels import LABELS
from contradiction.verdict import NOTHING_BEFORE


def counts(tally):
    """The numbers of a summary, each with the word after it."""
    return re.findall(r"\d[\d,]* \w+", str(tally))


def test_the_summary_adds_up_and_uses_singular_and_plural():
    tally = chunks.Tally()
    read = {"label": "history", "checked": True, "reason": None}
    guess, none = ({"label": label, "checked": False, "reason": "cut"} for label in ("history", None))
    tally.add([read, {"verdicts": [read, guess, none]}])
    assert counts(tally) == [
        "2 chats", "4 verdicts", "3 contradictions", "1 of", "2 checked", "2 unchecked", "1 without", "0 inputs",
    ]  # fmt: skip
    opening = {"label": None, "checked": False, "reason": NOTHING_BEFORE}
    tally.add([{"verdicts": [opening, read]}, {"verdicts": [opening]}])  # nothing in the second chat was checked
    assert counts(tally) == [
        "4 chats", "7 verdicts", "4 contradictions", "1 of", "3 checked", "1 on", "3 unchecked", "2 without",
        "0 inputs",
    ]  # fmt: skip
    assert "1 on opening replies" in str(tally)
    one = chunks.Tally()
    one.add([read], rejected=1200)
    assert counts(one) == [
        "1 chat", "1 verdict", "1 contradiction", "1 checked", "0 unchecked", "0 without", "1,200 inputs",
    ]  # fmt: skip


def test_decisions_use_exact_probabilities_and_output_is_rounded(detect, detect_model, sample_chats, tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join(map(line, sample_chats[:8])), encoding="utf-8")
    exact = ContradictionDetector.from_pretrained(detect_model, threshold=0.5).batch(sample_chats[:8])
    sure = sum(exact[0].scores[name] for name in LABELS["4-class"][1:])
    _, verdicts, _ = detect(file, "--threshold", "0.5")
    for row, verdict in zip(verdicts, exact, strict=True):
        assert row["scores"] == {name: round(score, 6) for name, score in verdict.scores.items()}
        assert row["score"] == round(verdict.score, 6) == row["scores"][row["label"]]
    # A threshold above the exact probability but not above the rounded one, or vice versa.
    for threshold in (sure - 1e-9, sure + 1e-9):
        [first, *_] = detect(file, "--threshold", repr(threshold))[1]
        assert (first["label"] != "non-contradiction") == (sure >= threshold)


def test_chunks_depend_on_the_input_alone_and_are_bounded(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_WINDOWS", 5)
    entries = [Entry(number, number, CHAT, turns) for number, turns in enumerate((2, 2, 9, 1, 3, 3), 1)]
    chats = Chats("x", "jsonl", [iter(entries)])
    assert [[chat.number for chat in part] for part in chunks.split_chunks(chats)] == [[1, 2, 3], [4, 5, 6]]
    chats = Chats("x", "jsonl", [iter(entries)])
    assert [[chat.number for chat in part] for part in chunks.split_chunks(chats, scan=True)] == [[1, 2, 3], [4, 5, 6]]
