"""Tokenizing model inputs: what is cut, and what is said of it."""

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from contradiction.inputs.tokenization import MARGIN, encode, has_known_token, text_end
from contradiction.inputs.views import VIEWS, model_input
from contradiction.training.initialize import character_tokenizer

ROW = {"u1": "你好吗", "b1": "我很好", "u2": "你多大", "b2": "我三岁"}


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer([text for text in ROW.values()] * 2, 100, model_max_length=64, truncation_side="left")


def test_what_is_too_long_is_cut_from_the_left_and_counted(tokenizer):
    row = {**ROW, "u1": "你" * 100}
    [encoded], [unread] = encode(tokenizer, [model_input(row, VIEWS["flatten"], tokenizer)], 20)
    assert len(encoded["input_ids"]) == 20
    whole = tokenizer(*model_input(row, VIEWS["flatten"], tokenizer).values())["input_ids"]
    assert f"the first {len(whole) - 20} tokens of the history were not read" in unread
    kept = tokenizer.decode(encoded["input_ids"], skip_special_tokens=True).replace(" ", "")
    assert kept.endswith("我很好你多大我三岁")


LIMIT = 64  # tokens that the tiny models read


seeds = st.integers(0, 2**32)


# A chat made from a seed does not shrink: trying to would only take minutes before a failure is shown.
many = {
    "phases": (Phase.generate,),
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}


def unigram():
    pieces = ["[CLS]", "[SEP]", "[PAD]", "<unk>", "▁", *"没养过猫我c", "没养", "养过", "▁我", "我没", "at", "cat"]
    made = Tokenizer(models.Unigram([(piece, -float(len(piece) + index % 3)) for index, piece in enumerate(pieces)], 3))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", sep_token="[SEP]", cls_token="[CLS]", pad_token="[PAD]"
    )


@pytest.mark.parametrize("kind", ["WordPiece", "Unigram"])
@settings(max_examples=25, **many)
@given(seed=seeds, side=st.sampled_from(["text", "text_pair"]))
def test_of_a_very_long_text_the_same_tokens_are_read_as_if_all_had_been_looked_at(detector, kind, seed, side):
    tokenizer = detector.classifier.backend.tokenizer if kind == "WordPiece" else unigram()
    draw = random.Random(seed)
    words = ("我没养过猫", "猫", "养过", " cat", "😀", " ", "\u0301", "没", "xyz" * 50, "我", "\n", "，", "[ SEP]")
    long = "".join(draw.choices(words, k=6000))
    one = {"text": "我养猫", "text_pair": "我没养过猫", side: long}
    assert len(text_end(long, LIMIT, lambda text: len(tokenizer.tokenize(text)))) < len(long) / 2, "else nothing is cut"
    [found], [unread] = encode(tokenizer, [one], LIMIT)
    how = "only_first" if side == "text" else "longest_first"
    whole = tokenizer(one["text"], one["text_pair"], truncation=how, max_length=LIMIT, verbose=False)
    assert found["input_ids"] == whole["input_ids"]
    assert unread and ("reply" in unread) == (side == "text_pair")


def test_text_without_tokens_is_no_reason_to_look_at_all_of_it(detector):
    tokenizer = detector.classifier.backend.tokenizer
    looked = []
    nothing = "\u200b" * 1_000_000
    end = text_end(f"我{nothing}", LIMIT, lambda text: looked.append(len(text)) or len(tokenizer.tokenize(text)))
    assert sum(looked) + len(end) < 40_000
    [found], [unread] = encode(tokenizer, [{"text": f"我{nothing}", "text_pair": "我没养过猫"}], LIMIT)
    assert unread == "only the last tokens of the history were read: the model reads at most 64"
    assert len(found["input_ids"]) < LIMIT
    # What is long, but not that long, is looked at whole, and so is no reason to say that anything was left out.
    [found], [unread] = encode(tokenizer, [{"text": f"我{nothing[:9000]}", "text_pair": "我没养过猫"}], LIMIT)
    assert unread is None and tokenizer.convert_tokens_to_ids("我") in found["input_ids"]
    assert has_known_token(tokenizer, f"我{nothing[: MARGIN * 60]}") and not has_known_token(tokenizer, nothing)
