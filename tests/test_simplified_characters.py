"""Traditional characters are read as simplified ones."""

import pytest
from helpers.chats import chat
from hypothesis import given
from hypothesis import strategies as st

from contradiction import cdconv
from contradiction.inputs.views import CONVERSATION, VIEWS, model_input, normalize
from contradiction.training.initialize import initialize_model
from contradiction.training.recipe import Recipe

TRADITIONAL = chat("你養過貓嗎？", "沒養過，我對貓毛過敏。", "那妳週末做什麼？", "在家裡陪我養的兩隻貓。")
SIMPLIFIED = chat("你养过猫吗？", "没养过，我对猫毛过敏。", "那妳周末做什么？", "在家里陪我养的两只猫。")


def test_the_conversion_of_a_character_depends_on_its_word():
    assert normalize("頭髮乾了，乾隆發財") == "头发干了，乾隆发财"


@given(st.text(st.characters(max_codepoint=0x24F, categories=["L", "Zs"], include_characters=",.!?\n")))
def test_text_that_is_not_chinese_is_unchanged_but_for_line_breaks_at_its_ends(text):
    assert normalize(text) == text.strip("\t\n\v\f\r").replace("\xad", "")


@pytest.mark.parametrize("view", ["flatten", "sentence-pair", "reply-only"])
def test_a_model_reads_both_scripts_alike(detector, view):
    rows = [
        dict(zip(CONVERSATION, (message["content"] for message in messages), strict=True))
        for messages in (TRADITIONAL, SIMPLIFIED)
    ]
    one, other = (model_input(row, VIEWS[view], detector.classifier.backend.tokenizer) for row in rows)
    assert one == other


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
