"""The probes: rule-based triggers, openings, personas, and the plan."""

import json
import re
from random import Random

import pytest
from helpers.chats import objects

from contradiction.errors import InputError
from contradiction.probing import triggers
from contradiction.probing.plan import ALL_TRIGGERS, cost, instruction, plan, read_openings, read_persona

SEED = Random(0)


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("我今年二十六岁了。", "我多大了？"),
        ("我养了两只猫，一只白的。", "我养了几只猫？"),
        ("我在一家医院当护士。", "我是做什么工作的？"),
        ("我女儿今年五岁，在上幼儿园。", "我女儿多大了？"),
        ("我最喜欢的季节是秋天。", "我最喜欢的季节是什么？"),
        ("我上个月去了云南旅游。", "我上个月去了哪里？"),
        ("我养了两只猫一只狗。", "我养了几只猫？"),
        ("我有一个哥哥和一个妹妹。", "我有几个哥哥？"),
        ("我最喜欢的歌手是周杰伦。", "我最喜欢的歌手是谁？"),
        ("我出生在1998年。", "我是什么时候出生的？"),
        ("我小时候在乡下长大。", "我小时候在哪里长大？"),
        ("我在打工，老家在河北。", "我老家在哪里？"),
        ("我以前当过兵。", "我做过什么工作？"),
        ("我昨天去看电影了。", "我昨天做了什么？"),
        ("我是石家庄人。", "我是哪里人？"),
    ],
)
def test_a_question_is_about_a_fact_that_was_stated(statement, question):
    assert triggers.ask_about(statement, of_bot=False) == question
    assert triggers.ask_about(statement, of_bot=True) == question.replace("我", "你")
    assert triggers.memory(statement, "", SEED) == f"你知道{question[:-1]}吗？"


@pytest.mark.parametrize("statement", ["我也不知道", "你呢？", "没有啊", "嗯嗯", "我打算明年结婚", "我是个普通人"])
def test_no_question_is_asked_about_an_opening_without_a_fact(statement):
    assert triggers.ask_about(statement, of_bot=True) is None
    assert triggers.inquiring_bot("", statement, SEED) == triggers.WHY


@pytest.mark.parametrize("reply", ["我" + "刚" * 60 + "了", "我" + "很" * 100_000])
def test_nothing_is_asked_about_a_reply_that_repeats_a_word(reply):
    # Where two words of a pattern can match the same text, this never ends.
    assert triggers.inquiring_bot("", reply, SEED) == triggers.WHY


@pytest.mark.parametrize(
    ("u1", "negated"),
    [
        ("你喜欢看电影吗？", "你不喜欢看电影吗？"),
        ("你有孩子吗？", "你没有孩子吗？"),
        ("你有没有兄弟姐妹？", "你没有兄弟姐妹吗？"),
        ("你结婚了吗？", "你没结婚吗？"),
        ("你的老板严厉吗？", "你的老板不严厉吗？"),
        ("你谈过恋爱吗？", "你没谈过恋爱吗？"),  # not 恋不爱
        ("你字写得好看吗？", "你字写得不好看吗？"),
        ("你住过校吗？", "你没住过校吗？"),
        ("你被骗过吗？", "你没被骗过吗？"),
        ("你已经结婚了吗？", "你还没结婚吗？"),
        ("你有对象没有？", "你没有对象吗？"),
        ("你去过迪士尼没有？", None),
        ("你会做饭不？", None),
    ],
)
def test_a_negation_is_added_or_removed(u1, negated):
    assert triggers.negate(u1, "", SEED) == negated


@pytest.mark.parametrize(
    ("u1", "changed"),
    [
        ("你女朋友漂亮吗？", "我想问一下，你女朋友漂亮吗？"),  # not 你是不是女朋友漂亮
        ("你酒量大吗？", "我想问一下，你酒量大吗？"),
        ("我可以问你一个问题吗？", "我想问一下，我可以问你一个问题吗？"),
        ("你最近过得好吗？", "你这段时间过得好不好？"),
        ("你爸妈身体还好吗？", "我想问一下，你爸妈身体还好吗？"),
        ("你没去过海边吗？", "你是不是没去过海边？"),
        ("你今年过生日吗？", "你是不是今年过生日？"),
        ("你有没有谈过恋爱？", "你以前谈过恋爱没有？"),
        ("你有机会出国吗？", "你是不是有机会出国？"),
        ("你特别喜欢猫吗？", "你是不是特别喜欢猫？"),
        ("那你在干嘛呢？", "你在干嘛？"),
        ("那边冷吗？", "我想问一下，那边冷吗？"),
        ("你好吗？", "你好不好？"),
        ("我喜欢猫，你呢？", None),
        ("你还年轻吧？", None),
    ],
)
def test_a_paraphrase_is_chinese_and_asks_the_same(u1, changed):
    assert triggers.paraphrase(u1, "", SEED) == changed


def test_a_synonym_and_an_antonym_replace_whole_words():
    assert triggers.synonym("你喜欢你的老板吗？", "", SEED) in ("你喜爱你的上司吗？", "你喜爱你的领导吗？")
    assert triggers.antonym("你最近忙什么呢？", "", SEED) is None, "nobody asks 闲什么"
    assert triggers.antonym("你喜欢看电影吗？", "", Random(1)) == "你讨厌看电影吗？"
    changed = {triggers.synonym("你家养狗的钱包丢过吗？", "", Random(seed)) for seed in range(20)}
    assert changed == {"你家养狗的皮夹丢过吗？", "你家养狗的钱夹丢过吗？"}
    assert {triggers.antonym("你今天忙不忙？", "", Random(seed)) for seed in range(9)} == {"你昨天忙不忙？"}
    assert triggers.synonym("你呢？", "", SEED) is None
    assert triggers.antonym("喜欢，我有一只猫，你喜欢什么？", "", SEED) == "喜欢，我有一只猫，你讨厌什么？"
    assert triggers.antonym("看来你很喜欢篮球呢，你多大啦？", "", SEED) is None, "only the clause that asks is changed"


def test_the_package_has_two_hundred_usable_openings():
    openings = read_openings()
    statements = [text for text in openings if not text.endswith("？")]
    assert len(openings) >= 200 and len(statements) >= 60
    assert all("你" in text for text in openings if text not in statements)
    assert all(text.startswith("我") and triggers.ask_about(text, of_bot=False) for text in statements)


QUESTION = re.compile("什么|哪|谁|几|多[少久大]|怎么")


@pytest.mark.parametrize("seed", range(2))
def test_a_person_would_ask_every_probe(seed, sample_rows):
    """Of two thousand probes: none repeats itself, offers one thing twice, or negates a question for a fact."""
    openings = [*read_openings(), *(row["u1"] for row in sample_rows if seed == 0)]
    probes = plan(openings, ALL_TRIGGERS[:8], 2000, seed=seed)
    for probe in probes:
        u2 = probe.second("我住在市区，还是郊区好。")
        assert u2 and u2 != probe.u1
        assert not re.search(r"(.+)还是\1[？呀啊]", u2), u2
        assert not re.search(r"([\u4e00-\u9fff]{2,})\1", u2) or u2 in probe.u1, u2
        assert not re.search("是不是[^，]*吗？|[很有]是不是|吗吗", u2) or u2 in probe.u1, u2
        assert not re.search("不没|没不|不不|没没|没[^，]*了吗", u2) or u2 in probe.u1, u2
        if QUESTION.search(u2) and re.search("不|没", u2) and not re.search("不|没", probe.u1):
            assert re.search("不(?:喜欢|爱|想|常|会做)|要不要|是不是", u2) and not re.search("几|多少", u2), u2
        if open_question := re.search(r"([\u4e00-\u9fff])不([\u4e00-\u9fff])", u2):
            asked = re.search(r"([\u4e00-\u9fff])不\1", probe.u1)
            assert not asked or open_question[1] == open_question[2] or asked[1] not in u2[: open_question.start() + 1]
        assert not re.search("[A-Za-z]", u2) or re.search("[A-Za-z]", probe.u1), u2


def test_a_plan_spreads_the_conversations_and_is_reproducible():
    names = [*ALL_TRIGGERS[:9], "repeat-20"]
    probes = plan(read_openings(), names, 103)
    assert probes == plan(read_openings(), names, 103) != plan(read_openings(), names, 103, seed=1)
    counts = [sum(probe.trigger == name for probe in probes) for name in names]
    assert sum(counts) == 103 and max(counts) - min(counts) == 1
    assert len({probe.id for probe in probes}) == 103
    few = plan(["你养猫吗？", "你喜欢狗吗？"], ["short"], 5)  # an opening is reused only after all others
    assert [probe.id.rpartition("/")[2] for probe in few] == ["0", "0", "1", "1", "2"]
    again = [probe for probe in probes if probe.trigger == "repeat-20"]
    assert all(probe.u1 == probe.u2 and len(set(probe.fillers)) == 20 for probe in again)
    assert cost(probes)[0] == 2 * 103 + 2 * counts[8] + 20 * counts[9]
    about_the_user = [probe for probe in probes if probe.trigger.startswith("inquiring-user")]
    assert all(not probe.u1.endswith("？") for probe in about_the_user)
    with pytest.raises(InputError, match="inquiring-user: no opening"):
        plan(["你养猫吗？"], ["inquiring-user"], 3)


def test_a_persona_is_stated_and_asked_about(tmp_path):
    file = tmp_path / "persona.json"
    facts = {"姓名": "林小满", "age": 26, "喜欢": ["吃火锅"], "口头禅": "好嘞", "{暗号}": "{}"}
    file.write_text(json.dumps(facts), encoding="utf-8-sig")
    persona = read_persona(file)
    assert persona == ("我叫林小满", "我今年26岁", "我喜欢吃火锅", "我的口头禅是好嘞", "我的{暗号}是{}")
    probes = plan(read_openings(), ["persona", "short"], 10, facts=persona)
    assert {probe.u1 for probe in probes[:5]} >= {"你叫什么名字？", "你多大了？", "你喜欢吃什么？"}
    [system] = instruction(probes[9].facts)
    assert system["role"] == "system" and all(fact in system["content"] for fact in persona)


@pytest.mark.parametrize(
    ("content", "where"),
    [("[]", "holds no facts"), ("{bad", "not JSON"), ('{"age": true}', "'age'")],
)
def test_a_wrong_persona_raises_one_line(content, where, tmp_path):
    file = tmp_path / "persona.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=f"persona.json: .*{where}"):
        read_persona(file)


def test_openings_can_come_from_a_file_or_from_cdconv(tmp_path, sample_repo, sample_rows):
    file = tmp_path / "mine.txt"
    file.write_text("# mine\n你养猫吗？\n\n我住在北京。\n你养猫吗？\n", encoding="utf-8")
    assert read_openings(file) == ["你养猫吗？", "我住在北京。"]
    assert set(read_openings(sample_repo)) <= {row["u1"] for row in sample_rows}
    file.write_text("你养猫吗？\n。。。\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine.txt:2"):
        read_openings(file)


@pytest.mark.real_data
def test_the_rules_change_cdconv_as_its_authors_did(release):
    """The negation and antonym rules apply to most openings of the rows with these triggers."""
    rows = objects(release)
    made = {"反义-否定词": triggers.negate, "设问-user-v2": triggers.memory, "反义-反义词": triggers.antonym}
    for method, rule in made.items():
        openings = list(dict.fromkeys(row["u1"] for row in rows if row["method"] == method))[:200]
        assert sum(rule(text, "", SEED) is not None for text in openings) / len(openings) > 0.6, method
