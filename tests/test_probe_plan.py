"""The probes: rule-based triggers, openings, personas, and the plan."""

import json
from random import Random

import pytest

from contradiction.errors import InputError
from contradiction.probing import triggers
from contradiction.probing.plan import Persona, all_triggers, estimate, plan, read_openings, read_persona
from contradiction.probing.triggers import lists

SEED = Random(0)


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("我今年二十六岁了。", "我多大了？"),
        ("我养了两只猫，一只白的。", "我养了几只猫？"),
        ("我是成都人。", "我是哪里人？"),
        ("我在一家医院当护士。", "我是做什么工作的？"),
        ("我女儿今年五岁，在上幼儿园。", "我女儿多大了？"),
        ("我喜欢听邓丽君的歌。", "我喜欢听谁的歌？"),
        ("我每天早上六点起床。", "我每天早上几点起床？"),
        ("我学了八年钢琴。", "我学了多久？"),
        ("我最喜欢的季节是秋天。", "我最喜欢的季节是什么？"),
        ("我上个月去了云南旅游。", "我上个月去了哪里？"),
    ],
)
def test_a_question_is_about_a_fact_that_was_stated(statement, question):
    assert triggers.ask_about(statement, of_bot=False) == question
    assert triggers.ask_about(statement, of_bot=True) == question.replace("我", "你")
    assert triggers.memory(statement, "", SEED) == f"你知道{question[:-1]}吗？"


@pytest.mark.parametrize("statement", ["我也不知道", "你呢？", "没有啊", "嗯嗯"])
def test_no_question_is_asked_about_an_opening_without_a_fact(statement):
    assert triggers.ask_about(statement, of_bot=True) is None
    assert triggers.inquiring_bot("", statement, SEED) == triggers.WHY


@pytest.mark.parametrize(
    ("u1", "negated"),
    [
        ("你喜欢看电影吗？", "你不喜欢看电影吗？"),
        ("你有孩子吗？", "你没有孩子吗？"),
        ("你有没有兄弟姐妹？", "你没有兄弟姐妹吗？"),
        ("你结婚了吗？", "你没结婚吗？"),
        ("你去过海边吗？", "你没去过海边吗？"),
        ("你是左撇子吗？", "你不是左撇子吗？"),
        ("你没有工作吗？", "你有工作吗？"),
        ("你的老板严厉吗？", "你的老板不严厉吗？"),
        ("你谈过恋爱吗？", "你没谈过恋爱吗？"),  # not 恋不爱
    ],
)
def test_a_negation_is_added_or_removed(u1, negated):
    assert triggers.negate(u1, "", SEED) == negated


def test_a_synonym_and_an_antonym_replace_whole_words():
    assert triggers.antonym("你喜欢看电影吗？", "", Random(1)) in ("你讨厌看电影吗？", "你厌烦看电影吗？")
    changed = {triggers.synonym("你有没有考虑过换一份工作呀？", "", Random(seed)) for seed in range(20)}
    assert changed == {"你有没有考虑过换一份职业呀？", "你有没有考虑过换一份活儿呀？"}
    assert triggers.synonym("你呢？", "", SEED) is None


def test_a_paraphrase_changes_every_opening_and_keeps_it_a_question():
    questions = [text for text in read_openings() if text.endswith("？")]
    changed = [triggers.paraphrase(text, "", SEED) for text in questions]
    assert all(new and new != old and new.endswith("？") for old, new in zip(questions, changed, strict=True))


def test_the_package_has_two_hundred_usable_openings():
    openings = read_openings()
    statements = [text for text in openings if not text.endswith("？")]
    assert len(openings) >= 200 and len(statements) >= 60
    assert all("你" in text for text in openings if text not in statements)
    assert all(text.startswith("我") and triggers.ask_about(text, of_bot=False) for text in statements)


def test_a_plan_spreads_the_conversations_and_is_reproducible():
    names = all_triggers((2, 20), False)
    probes = plan(read_openings(), names, 103)
    assert probes == plan(read_openings(), names, 103) != plan(read_openings(), names, 103, seed=1)
    counts = [sum(probe.trigger == name for probe in probes) for name in names]
    assert sum(counts) == 103 and max(counts) - min(counts) == 1
    assert len({probe.id for probe in probes}) == 103
    again = [probe for probe in probes if probe.trigger == "repeat-20"]
    assert all(probe.u1 == probe.u2 and len(set(probe.fillers)) == 20 for probe in again)
    assert estimate(probes).calls == 2 * 103 + 2 * counts[8] + 20 * counts[9]
    about_the_user = [probe for probe in probes if probe.trigger.startswith("inquiring-user")]
    assert all(not probe.u1.endswith("？") for probe in about_the_user)


def test_an_opening_is_reused_only_after_all_others():
    probes = plan(["你养猫吗？", "你喜欢狗吗？"], ["short"], 5)
    assert [probe.id.rpartition("/")[2] for probe in probes] == ["0", "0", "1", "1", "2"]


def test_a_persona_is_stated_and_asked_about(tmp_path):
    file = tmp_path / "persona.json"
    file.write_text(
        json.dumps({"姓名": "林小满", "age": 26, "喜欢": ["吃火锅"], "口头禅": "好嘞", "introduction": "学生"}),
        encoding="utf-8-sig",
    )
    persona = read_persona(file)
    assert persona.facts == ("我叫林小满", "我今年26岁", "我喜欢吃火锅", "我的口头禅是好嘞", "我的introduction是学生")
    probes = plan(read_openings(), ["persona", "short"], 10, persona=persona)
    assert {probe.u1 for probe in probes[:5]} >= {"你叫什么名字？", "你多大了？", "你喜欢吃什么？"}
    [system] = probes[9].start
    assert system["role"] == "system" and all(fact in system["content"] for fact in persona.facts)
    turns = Persona(persona.facts, as_turns=True).messages()
    assert [message["role"] for message in turns] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("content", "where"),
    [("[]", "holds no facts"), ("{bad", "not JSON"), ('{"age": true}', "'age'"), ("[1]", "[0] is a number")],
)
def test_a_wrong_persona_raises_one_line(content, where, tmp_path):
    file = tmp_path / "persona.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="persona.json") as error:
        read_persona(file)
    assert where in str(error.value)


def test_openings_can_come_from_a_file_or_from_cdconv(tmp_path, sample_repo, sample_rows):
    text, lines = tmp_path / "mine.txt", tmp_path / "mine.jsonl"
    text.write_text("# mine\n你养猫吗？\n\n我住在北京。\n", encoding="utf-8")
    lines.write_text('{"text": "你养猫吗？"}\n{"text": "我住在北京。"}\n', encoding="utf-8")
    assert read_openings(text) == read_openings(lines) == ["你养猫吗？", "我住在北京。"]
    lines.write_text('{"text": "一行\u2028又一行"}\n', encoding="utf-8")
    assert read_openings(lines) == ["一行\u2028又一行"]
    assert set(read_openings(sample_repo)) <= {row["u1"] for row in sample_rows}
    lines.write_text('{"text": "你养猫吗？"}\n{"text": 3}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"mine.jsonl:2.*must be text"):
        read_openings(lines)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["louder"], "trigger 'louder'"),
        (["persona"], "none is given"),
        (["inquiring-user"], "inquiring-user: no opening"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(names, why):
    with pytest.raises(InputError, match=why):
        plan(["你养猫吗？"], names, 3)


def test_the_word_lists_have_no_duplicates_and_map_no_word_to_itself():
    words = lists()
    for name in ("short", "fillers", "occupations"):
        assert len(set(words[name])) == len(words[name])
    for name in ("synonyms", "antonyms"):
        assert all(word not in others for word, others in words[name].items())


@pytest.mark.real_data
def test_the_rules_change_cdconv_as_its_authors_did(release):
    """The negation and antonym rules apply to most openings of the rows with these triggers."""
    rows = [json.loads(line) for line in release.read_text(encoding="utf-8").splitlines()]
    made = {"反义-否定词": triggers.negate, "设问-user-v2": triggers.memory, "反义-反义词": triggers.antonym}
    for method, rule in made.items():
        openings = list(dict.fromkeys(row["u1"] for row in rows if row["method"] == method))[:200]
        assert sum(rule(text, "", SEED) is not None for text in openings) / len(openings) > 0.6, method
