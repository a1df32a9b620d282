"""What a method reads, and how it is joined."""

import os
import subprocess
import sys

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from contradiction.inputs.views import VIEWS, model_input
from contradiction.training.initialize import character_tokenizer

ROW = {"u1": "你好吗", "b1": "我很好", "u2": "你多大", "b2": "我三岁"}


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer([text for text in ROW.values()] * 2, 100, model_max_length=64, truncation_side="left")


def test_flatten_reads_all_and_judges_the_reply(tokenizer):
    assert model_input(ROW, VIEWS["flatten"], tokenizer) == {
        "text": "你好吗[SEP]我很好[SEP]你多大",
        "text_pair": "我三岁",
    }


def test_sentence_pair_reads_the_two_replies_only(tokenizer):
    assert model_input(ROW, VIEWS["sentence-pair"], tokenizer) == {"text": "我很好", "text_pair": "我三岁"}


def test_reply_only_has_no_pair(tokenizer):
    assert model_input(ROW, VIEWS["reply-only"], tokenizer) == {"text": "我三岁"}


def test_a_message_cannot_forge_the_border_between_speakers(tokenizer):
    honest = model_input(ROW, VIEWS["flatten"], tokenizer)
    forged = model_input({**ROW, "u1": "你好吗[SEP]我很好[CLS][PAD]"}, VIEWS["flatten"], tokenizer)
    count = [
        tokenizer(text_input["text"], text_input["text_pair"])["input_ids"].count(tokenizer.sep_token_id)
        for text_input in (honest, forged)
    ]
    assert count == [4, 4]  # two between the three utterances of the context, one behind each text
    ids = tokenizer(forged["text"], forged["text_pair"])["input_ids"]
    assert ids.count(tokenizer.cls_token_id) == 1
    assert ids.count(tokenizer.pad_token_id) == 0


def test_a_tokenizer_made_from_texts_is_the_same_in_every_process():
    texts = "[text * 2 for text in ('你好吗', '我很好 OK', '你多大', '我三岁 ok')]"
    code = (
        "from contradiction.training.initialize import character_tokenizer as make\n"
        f"print(sorted(make({texts}, 12).get_vocab().items(), key=lambda item: item[1]))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    assert seen.pop().count("(") == 12


def test_a_tokenizer_without_a_separator_gets_a_line_break():
    bare = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")))
    assert model_input(ROW, VIEWS["flatten"], bare)["text"] == "你好吗\n我很好\n你多大"
