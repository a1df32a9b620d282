"""Pruning: a smaller vocabulary that keeps the pieces and the hidden states of the texts of the corpus."""

import json
import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from experiments.prune_vocabulary import prune, read_texts

LETTERS = "你我他养猫狗吃饭喝茶abcde"
OTHERS = "いろはжщ"  # other languages, which pruning must remove
WITHOUT_PIECE = "☃"  # a character without a piece
CORPUS = ["你养猫吗", "我养狗", "他吃饭 abc", "喝茶喝茶 de", "你☃我", "ab 喝茶 ☃", "c"]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def words(letters, count):
    chosen = random.Random(7)
    return sorted({"".join(chosen.choices(letters, k=chosen.randint(2, 4))) for _ in range(count)})


def unigram():
    """As in XLM-R, with <mask> last. The scores are coarse, so that many segmentations tie."""
    chosen = random.Random(3)
    known = ["喝茶", "养猫", "养狗", "吃饭", "▁喝茶"]
    longer = [*words(LETTERS, 300), *words(OTHERS, 100), *(f"▁{letter}" for letter in LETTERS)]
    pieces = [piece for piece in [*LETTERS, "吗", *OTHERS, *longer] if piece not in known]
    scored = [(piece, -1.0 - chosen.randint(0, 12) / 2) for piece in pieces]
    likely = [(piece, -1.5) for piece in known]
    table = [*((token, 0.0) for token in SPECIAL), ("▁", -2.0), *scored, *likely, ("<mask>", 0.0)]
    made = Tokenizer(models.Unigram(table, unk_id=3))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    named = {f"{name}_token": token for name, token in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=40, **named)


def pieces_of(tokenizer, text):
    # From ids, because `tokenize` shows the text of an unknown piece.
    return tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"])


def write(folder, tokenizer):
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}
    config = AutoConfig.for_model(
        "xlm-roberta",
        vocab_size=len(tokenizer) + 3,  # as if the rows were padded to a round number
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=44,
        **ids,
    )
    torch.manual_seed(1)
    AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A backbone and the result of pruning it."""
    folder = tmp_path_factory.mktemp("pruning")
    before = write(folder / "before", unigram())
    return before, str(folder / "after"), prune(before, CORPUS, folder / "after")


@pytest.fixture(scope="module")
def tokenizers(pair):
    return tuple(AutoTokenizer.from_pretrained(folder) for folder in pair[:2])


def test_the_vocabulary_is_smaller_and_special_tokens_keep_their_names_and_roles(pair, tokenizers):
    before, after = tokenizers
    assert len(after) < len(before) / 3 and set(after.get_vocab()) < set(before.get_vocab())
    assert not [piece for piece in after.get_vocab() if set(piece) & set(OTHERS)]
    assert after.special_tokens_map == before.special_tokens_map
    config = AutoConfig.from_pretrained(pair[1])
    assert config.vocab_size == len(after) == pair[2]["pieces"]["after"]
    assert config.pad_token_id == after.pad_token_id != after.unk_token_id
    assert after.mask_token_id in after(f"你{after.mask_token}")["input_ids"]
    assert (after.model_max_length, after.padding_side) == (40, "right")


def test_texts_of_the_corpus_have_the_same_pieces_and_hidden_states(pair, tokenizers):
    models_ = [AutoModel.from_pretrained(folder).eval() for folder in pair[:2]]
    states = []
    for tokenizer, model in zip(tokenizers, models_, strict=True):
        batch = tokenizer(CORPUS, padding=True, return_tensors="pt")
        pieces = [tokenizer.convert_ids_to_tokens(ids) for ids in batch["input_ids"]]
        with torch.inference_mode():
            states.append((pieces, model(**batch).last_hidden_state))
    assert states[0][0] == states[1][0]
    assert torch.equal(states[0][1], states[1][1])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_texts_of_any_corpus_keep_their_pieces(pair, tokenizers, tmp_path_factory, data):
    alphabet = LETTERS + WITHOUT_PIECE + "吗 ж"
    corpus = data.draw(st.lists(st.text(alphabet=alphabet, min_size=1, max_size=25), min_size=1, max_size=12))
    out = tmp_path_factory.mktemp("any") / "out"
    prune(pair[0], corpus, out)
    after = AutoTokenizer.from_pretrained(out)
    assert [pieces_of(tokenizers[0], text) for text in corpus] == [pieces_of(after, text) for text in corpus]


def test_a_corpus_is_text_or_json_lines_with_the_forms_that_a_detector_reads(tmp_path):
    (tmp_path / "a.txt").write_text("你養過貓嗎？\n\n{不是\n", encoding="utf-8")
    lines = [{"messages": [{"role": "user", "content": "甲"}], "n": 1}, {"b": {"c": "乙\n丙"}, "d": None}]
    (tmp_path / "b.any").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8-sig")  # as some editors save it
    texts = list(read_texts([tmp_path / "a.txt", tmp_path / "b.any"]))
    assert texts == ["你養過貓嗎？", "你养过猫吗？", "{不是", "user", "甲", "乙\n丙", "乙，丙"]
