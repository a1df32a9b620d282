"""Scores on the crossed corpus: what they count. A detector that reads only one side is at chance level."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contradiction import paths
from contradiction.data.corpora.crossed import Pair, Quadruple
from contradiction.errors import InputError
from contradiction.evaluation.crossed import (
    ALL,
    FIGURES,
    best_precision,
    false_alarms,
    judge_items,
    shared_characters,
    summary,
)
from contradiction.io.files import RECORD, write_json
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe
from contradiction.verdict import Verdict


def user(text):
    return {"role": "user", "content": text}


def bot(text):
    return {"role": "assistant", "content": text}


def quadruple(number, turns=1, label="history"):
    between = [message for turn in range(turns - 1) for message in (bot(f"哈哈{turn}"), user(f"天气{turn}"))]
    chats = [
        (user("养宠物吗"), bot(f"{statement}{number}"), user("周末呢"), *between) for statement in ("养猫", "没养")
    ]
    return Quadruple(f"q{number}", "b", label, "possession", *chats, f"给猫洗澡{number}", f"没活物{number}", 1)


class Scripted:
    """Gives each chat the verdict that a function returns."""

    def __init__(self, probability, evidence=(1,)):
        self.probability, self.evidence = probability, evidence

    def batch(self, chats, on_batch=None):
        return [self._verdict(self.probability(chat)) for chat in chats]

    def _verdict(self, probability):
        label = "history" if probability >= 0.5 else "non-contradiction"
        return Verdict(label, probability, {}, probability, self.evidence if label == "history" else ())


def oracle(chat):
    return 0.9 if ("猫" in chat[1]["content"]) != ("猫" in chat[-1]["content"]) else 0.1


def only_the_reply(chat):
    return 0.9 if "猫" in chat[-1]["content"] else 0.1


def only_the_chat(chat):
    return 0.9 if "猫" in chat[1]["content"] else 0.1


@pytest.fixture
def items():
    return [quadruple(number, turns=1 + number % 3) for number in range(12)]


def test_character_overlap_ranks_the_reply_that_repeats_correctly(items):
    # 养猫 and 给猫洗澡 share 猫; 没养 and 没活物 share 没. Every text contains the number.
    assert shared_characters(items) == 1
    swapped = [replace(item, reply_a=item.reply_b, reply_b=item.reply_a) for item in items]
    assert shared_characters([*items, *swapped]) == 0.5
    assert shared_characters([replace(item, reply_a="好", reply_b="行") for item in items]) == 0.5


def test_a_detector_that_compares_is_always_right(items):
    whole = summary(judge_items(Scripted(oracle), items))[ALL]
    assert [whole[figure] for figure in FIGURES] == [1, 1, 1, 1]
    assert whole["auc"] == 1


@pytest.mark.parametrize("one_sided", [only_the_reply, only_the_chat])
def test_a_detector_that_reads_one_side_is_at_chance(items, one_sided):
    whole = summary(judge_items(Scripted(one_sided), items))[ALL]
    assert (whole["in_order"], whole["all_right"], whole["auc"]) == (0.5, 0, 0.5)
    assert whole["both_right"] == (0.5 if one_sided is only_the_reply else 0)


def test_ties_count_as_half(items):
    assert summary(judge_items(Scripted(lambda chat: 0.3), items))[ALL]["in_order"] == 0.5


def test_evidence_counts_only_in_chats_of_three_or_more_turns(items):
    whole = summary(judge_items(Scripted(oracle, evidence=(3,)), items))[ALL]
    assert whole["evidence"] == 0
    short = [item for item in items if len(item.a) < 5]
    assert summary(judge_items(Scripted(oracle), short))[ALL]["evidence"] is None


def test_the_interval_contains_the_figure_and_resamples_whole_items(items):
    item_ids = {item.id for item in items[:6]}
    half = Scripted(lambda chat: oracle(chat) if f"q{chat[1]['content'][2:]}" in item_ids else 0.5)
    whole = summary(judge_items(half, items))[ALL]
    low, high = whole["interval"]["in_order"]
    assert whole["in_order"] == 0.75
    assert 0.5 <= low < 0.75 < high <= 1


def test_pairs_of_self_contradictions_count_too():
    pair = Pair(
        "p", "b", "intra-sentence", "kin", (user("几口人"),), "独生子，表姐大", "独生子，亲姐大", ("独生子", "亲姐大")
    )
    whole = summary(judge_items(Scripted(lambda chat: 0.9 if "亲姐" in chat[-1]["content"] else 0.1), [pair]))[ALL]
    assert (whole["in_order"], whole["all_right"], whole["evidence"]) == (1, 1, None)


def test_precision_at_a_low_prior_weights_false_alarms_a_hundredfold():
    truth = np.arange(200) < 100
    # Half of the contradictions rank above everything else, and the others rank among 9 of 100 consistent replies.
    probabilities = np.where(truth, np.where(np.arange(200) < 50, 0.9, 0.6), np.where(np.arange(200) < 109, 0.7, 0.1))
    above = 0.03 * 0.5 / (0.03 * 0.5 + 0.97 * 0.5 / 101)
    assert best_precision(truth, probabilities) == pytest.approx(above)
    # With fewer contradictions at the top, a recall of 0.4 needs those among the consistent replies too.
    probabilities[30:50] = 0.6
    everything = 0.03 / (0.03 + 0.97 * 9.5 / 101)
    assert best_precision(truth, probabilities) == pytest.approx(everything)


def test_the_calibration_error_is_the_gap_between_probability_and_share(items):
    whole = summary(judge_items(Scripted(lambda chat: 0.7), items))[ALL]
    assert whole["calibration_error"] == pytest.approx(0.2)


def test_false_alarms_are_counted_without_earlier_turns(items):
    counts = false_alarms(Scripted(lambda chat: 0.9 if len(chat) == 1 or "3" in chat[-1]["content"] else 0.1), items)
    assert counts == {"alone": (24, 24), "unrelated": (2, 24)}


def test_an_unrelated_chat_comes_from_another_item(items):
    chats = []
    detector = Scripted(lambda chat: chats.append(chat) or 0.1)
    false_alarms(detector, items)
    for chat in chats[24:]:
        assert chat[1]["content"][2:] != chat[-1]["content"].lstrip("给猫洗澡没活物")


def test_the_command_prints_figures_with_the_chance_level(run, quick_model, tmp_path, monkeypatch):
    from contradiction.data.corpora import crossed

    items = crossed.read("validation")
    few = [*items[:3], *items[-1:]]
    monkeypatch.setattr(crossed, "read", lambda split, folder: few)
    code, out, err = run("evaluate", quick_model, "--config", "crossed", "--split", "validation",
                       "--json", tmp_path / "it.json")  # fmt: skip
    assert code == 0 and "too high" not in err
    assert "a coin" in out
    kept = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert kept["styles"][ALL]["n"] == kept["phenomena"][ALL]["n"] == 4
    assert kept["leakage"] is None


def test_the_corpus_with_long_replies_is_evaluated_by_its_name(run, quick_model, tmp_path, monkeypatch):
    from contradiction.data.corpora import crossed

    read = crossed.read
    monkeypatch.setattr(crossed, "read", lambda split, folder: read(split, folder)[:2])
    code, out, _ = run("evaluate", quick_model, "--config", "crossed-long", "--split", "validation",
                       "--json", tmp_path / "it.json")  # fmt: skip
    assert code == 0 and "crossed-long, 2 items" in out
    kept = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert kept["config"] == "crossed-long" and kept["styles"][ALL]["n"] == 2


def test_the_record_of_the_shipped_detector_says_that_crossed_chats_were_read():
    run = record.read(paths.SHIPPED)
    assert leakage.describe_crossed(run, "train").endswith("trained on the training split of the crossed chats")
    assert leakage.describe_crossed(run, "validation") is None


@pytest.mark.parametrize("where", ["request", "ancestors"])
def test_the_command_warns_if_the_detector_was_trained_on_the_crossed_chats(
    run, quick_model, tmp_path, monkeypatch, where
):
    from contradiction.data.corpora import crossed

    few = crossed.read("train")[:2]
    monkeypatch.setattr(crossed, "read", lambda split, folder: few)
    model = shutil.copytree(quick_model, tmp_path / "model")
    trained = record.read(model)
    if where == "request":
        trained["request"]["recipe"]["augmentation"]["crossed"] = True
    else:
        trained["ancestors"] = [{"config": "4-class", "model": "teacher", "crossed": True}]
    write_json(model / RECORD, trained)
    for split, leaks in (("train", True), ("validation", False)):
        code, _, err = run("evaluate", model, "--config", "crossed", "--split", split, "--json", tmp_path / "it.json")
        assert code == 0
        kept = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
        assert ("trained on the training split of the crossed chats: its scores are too high" in err) == leaks
        assert ("crossed chats" in (kept["leakage"] or "")) == leaks


@pytest.mark.parametrize(
    "options",
    [
        ["--data", "elsewhere"],
        ["--evidence"],
        ["--evidence", "--windowing", "structured"],
        ["--evidence", "--limit", "3"],
        ["--limit", "3"],
        ["--settings", "--results", "elsewhere"],
    ],
)
def test_the_error_names_an_option_that_crossed_chats_do_not_support(run, options, tmp_path):
    code, _, err = run("evaluate", tmp_path / "no-model", "--config", "crossed", *options)
    named = [option for option in options if option.startswith("--")]
    assert code == 2 and "--config crossed" in err and all(option in err for option in named)
    assert "no-model" not in err


def test_memory_is_measured_on_items_of_the_batches_that_a_model_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiments"))
    from crossed_memory import trained_items

    recipe = {"name": "x", "config": "4-class", "view": "flatten", "backbone": "y"}
    for options, batches in (({}, None), ({"crossed": True, "crossed_batches": ["k1", "s1"]}, {"k1", "s1"})):
        values = Recipe.of(**recipe, **options).recorded()
        (tmp_path / "run.json").write_text(json.dumps({"request": {"recipe": values}}), encoding="utf-8")
        if batches:
            assert {item.batch for item in trained_items(str(tmp_path))} == batches
        else:
            with pytest.raises(InputError, match="names no crossed chats"):
                trained_items(str(tmp_path))
