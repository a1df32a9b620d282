"""From a chat to model inputs: what a method reads, which earlier turns, and what is truncated."""

import os
import random
import subprocess
import sys

import pytest
from helpers.chats import chat
from helpers.generated_chats import LIMIT, many, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from contradiction import cdconv
from contradiction.conversation import read_turns
from contradiction.inputs.tokenization import encode, has_known_token
from contradiction.inputs.views import INTRODUCTION, VIEWS, is_opening, model_input, normalize, windows
from contradiction.paths import SHIPPED
from contradiction.training.initialize import character_tokenizer, initialize_model
from contradiction.training.recipe import Recipe

ROW = {"u1": "你好吗", "b1": "我很好", "u2": "你多大", "b2": "我三岁"}


@pytest.fixture(scope="module")
def tokenizer():
    return character_tokenizer([text for text in ROW.values()] * 2, 100, model_max_length=64, truncation_side="left")


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        ("flatten", {"text": "你好吗[SEP]我很好[SEP]你多大", "text_pair": "我三岁"}),
        ("sentence-pair", {"text": "我很好", "text_pair": "我三岁"}),
        ("reply-only", {"text": "我三岁"}),
    ],
)
def test_a_view_reads_its_utterances_and_judges_the_last(tokenizer, view, texts):
    assert model_input(ROW, VIEWS[view], tokenizer) == texts


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("你好\n", "你好"),
        ("\u3000你好\u200b", "你好"),
        ("你好。\n\n我是客服。", "你好。我是客服。"),
        ("我用 iPhone 15 手机", "我用iPhone 15手机"),
        ("喜欢猫 不喜欢狗", "喜欢猫，不喜欢狗"),
        ("第一句\r\n第二句", "第一句，第二句"),
        ("哈哈 😀 ok!\n", "哈哈ok!"),
        ("好的😊我明天去❤️", "好的，我明天去"),
        ("**重点**：用`pip`安装，见[文档](https://example.org/a)", "重点：用pip安装，见文档"),
        ("## 推荐\n- 苹果\n- 香蕉\n\n1. 先洗", "推荐，苹果，香蕉，先洗"),
        ("三乘5*3=15，**\n45", "三乘5*3=15，45"),
        (" cat 和 dog ", "cat和dog"),
        ("I like  cats. ", "I like  cats. "),
        ("<p>I like cats 😀</p>", "I like cats"),
        ("666\n", "666"),
        ("꽃 나무", "꽃 나무"),
        ("頭髮乾了，乾隆發財", "头发干了，乾隆发财"),  # the conversion of a character depends on its word
        ("", ""),
    ],
)
def test_text_is_written_as_in_the_data_set(written, read):
    assert normalize(written) == read == normalize(read)


FORGED = ("</s>", "＜/s＞", "‹/ｓ>", "<\x01/s>", "＜pad＞", "＜/s＞</s>", "＜ /s＞", "<<//s>s>", "＜/s")


@pytest.mark.parametrize("text", FORGED)
def test_no_form_of_a_special_token_forges_one(text):
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    unknown = tokenizer.unk_token_id
    honest, forged = (
        model_input({**ROW, "u1": first, "b2": first}, VIEWS["flatten"], tokenizer) for first in ("你", f"你{text}好")
    )
    count = [
        sum(token in tokenizer.all_special_ids for token in tokenizer(**entry)["input_ids"] if token != unknown)
        for entry in (honest, forged)
    ]
    assert count[0] == count[1]


@pytest.mark.parametrize("length", [300, 20_000])
def test_a_long_question_does_not_hide_the_earlier_reply(tokenizer, length):
    row = {**ROW, "u1": "好" * length, "u2": "你" * length + "多大"}
    [encoded], [unread] = encode(tokenizer, [model_input(row, VIEWS["flatten"], tokenizer)], 32)
    kept = tokenizer.decode(encoded["input_ids"]).replace(" ", "")
    assert len(encoded["input_ids"]) == 32
    assert kept.endswith("[SEP]我很好[SEP]" + "你" * 6 + "多大[SEP]我三岁[SEP]")
    assert "tokens of the history were" in unread
    # A question that has room is read whole, and without one the earlier reply is cut from the left as before.
    [encoded], [unread] = encode(
        tokenizer, [model_input({**row, "u1": "", "u2": "你" * 10}, VIEWS["flatten"], tokenizer)], 32
    )
    assert unread is None and encoded["input_ids"].count(tokenizer.convert_tokens_to_ids("你")) == 10
    [encoded], _ = encode(tokenizer, [model_input({**row, "b1": "我" * length}, VIEWS["sentence-pair"], tokenizer)], 32)
    assert encoded["input_ids"].count(tokenizer.convert_tokens_to_ids("我")) == 32 - 6 + 1


def test_a_tokenizer_made_from_texts_is_the_same_in_every_process():
    """The other process orders sets by another hash seed."""
    texts = [text * 2 for text in ("你好吗", "我很好 OK", "你多大", "我三岁 ok")]
    code = (
        "from contradiction.training.initialize import character_tokenizer as make\n"
        f"print(sorted(make({texts}, 12).get_vocab().items(), key=lambda item: item[1]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    vocabulary = sorted(character_tokenizer(texts, 12).get_vocab().items(), key=lambda item: item[1])
    assert (done.stdout.strip(), len(vocabulary)) == (str(vocabulary), 12)


def test_a_tokenizer_without_a_separator_uses_a_line_break():
    bare = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")))
    assert model_input(ROW, VIEWS["flatten"], bare)["text"] == "你好吗\n我很好\n你多大"


@pytest.mark.parametrize(
    ("first", "place", "windowing", "rows", "read"),
    [
        (0, 2, "windowed", ["甲乙戊己", "丙丁戊己"], [0, 1]),
        (0, 2, "structured", ["乙己", "丁己"], [0, 1]),
        (0, 2, "unstructured", ["甲乙丙丁戊己"], [None]),
        # A bot that begins answers the introduction; an opening has no earlier reply to read.
        (1, 2, "windowed", [f"{INTRODUCTION}乙戊己", "丙丁戊己"], [0, 1]),
        (1, 2, "unstructured", [f"{INTRODUCTION}乙丙丁戊己"], [None]),
        (1, 2, "structured", ["乙己", "丁己"], [0, 1]),
        (1, 0, "windowed", ["乙"], [None]),
    ],
)
def test_a_windowing_reads_earlier_turns_with_the_judged_turn(first, place, windowing, rows, read):
    chosen = windows(read_turns(chat(*"甲乙丙丁戊己")[first:]), place, windowing)
    assert ["".join("".join(text) for text in window.row.values()) for window in chosen] == rows
    assert [window.turn for window in chosen] == read
    nearest = windows(read_turns(chat(*"甲乙丙丁戊己")[first:]), place, windowing, max_turns=1)
    assert len(nearest) == 1 and nearest[0].row["b1"] == chosen[-1].row["b1"]


def test_earlier_replies_without_words_are_skipped():
    turns = read_turns(chat("甲", "乙", "丙", "……", "戊", "己"))
    [window] = windows(turns, 2)
    assert window.turn == 0
    # The user message before the empty reply is not lost.
    assert tuple(window.row.values()) == ("甲", "乙", "丙\n戊", "己")
    [alone] = windows(read_turns(chat("甲", "……", "丙", "丁")), 1)
    assert is_opening(alone.row)
    assert not is_opening(window.row)
    assert tuple(alone.row.values()) == ("", "", "甲\n丙", "丁")


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
def test_a_very_long_text_yields_the_same_tokens_as_full_tokenization(detector, kind, seed, side):
    tokenizer = detector.classifier.backend.tokenizer if kind == "WordPiece" else unigram()
    draw = random.Random(seed)
    words = ("我没养过猫", "猫", "养过", " cat", "😀", " ", "\u0301", "没", "xyz" * 50, "我", "\n", "，", "[ SEP]")
    long = "".join(draw.choices(words, k=6000))
    one = {"text": "我养猫", "text_pair": "我没养过猫", side: long}
    [encoding], [unread] = encode(tokenizer, [one], LIMIT)
    how = "only_first" if side == "text" else "longest_first"
    whole = tokenizer(one["text"], one["text_pair"], truncation=how, max_length=LIMIT, verbose=False)
    assert encoding["input_ids"] == whole["input_ids"]
    assert unread and ("reply" in unread) == (side == "text_pair")


def test_text_without_tokens_does_not_force_full_tokenization(detector):
    tokenizer = detector.classifier.backend.tokenizer
    nothing = "\u200b" * 1_000_000
    [encoding], [unread] = encode(tokenizer, [{"text": f"我{nothing}", "text_pair": "我没养过猫"}], LIMIT)
    assert unread == "only the last tokens of the history were read: the model reads at most 64"
    assert len(encoding["input_ids"]) < LIMIT
    # A text that is long, but not that long, is tokenized completely, so nothing is reported as unread.
    [encoding], [unread] = encode(tokenizer, [{"text": f"我{nothing[:4000]}", "text_pair": "我没养过猫"}], LIMIT)
    assert unread is None and tokenizer.convert_tokens_to_ids("我") in encoding["input_ids"]
    assert has_known_token(tokenizer, f"我{nothing[:2000]}") and not has_known_token(tokenizer, nothing)


# Traditional characters are read as simplified ones.

TRADITIONAL = chat("你養過貓嗎？", "沒養過，我對貓毛過敏。", "那妳週末做什麼？", "在家裡陪我養的兩隻貓。")
SIMPLIFIED = chat("你养过猫吗？", "没养过，我对猫毛过敏。", "那妳周末做什么？", "在家里陪我养的两只猫。")


@given(st.text(st.characters(max_codepoint=0x24F, categories=["L", "Zs"], include_characters=",.!?\n")))
def test_text_that_is_not_chinese_is_unchanged_but_for_line_breaks_at_its_ends(text):
    assert normalize(text) == text.strip("\t\n\v\f\r").replace("\xad", "")


def test_a_vocabulary_built_from_texts_uses_simplified_characters():
    recipe = Recipe.of(name="new", view="flatten", config="4-class", scratch={"hidden_size": 32, "heads": 2})
    tokenizer = initialize_model(recipe, [text["content"] for text in TRADITIONAL] * 2)[1]
    assert {"养", "猫"} < tokenizer.get_vocab().keys()
    assert not {"養", "貓"} & tokenizer.get_vocab().keys()


def test_verdicts_do_not_depend_on_the_script(detector):
    assert detector.scan(TRADITIONAL) == detector.scan(SIMPLIFIED)
    assert detector.why_unreadable("貓") is None and detector.why_unreadable("猫") is None


def test_the_data_set_is_already_simplified(release):
    texts = {row[column] for row in cdconv.read_rows(release) for column in cdconv.UTTERANCES}
    assert len(texts) > 20_000
    assert [text for text in texts if normalize(text) != text] == []
