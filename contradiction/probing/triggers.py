"""Writes the second thing that the user says, by rules: the eight methods of the paper (sections 4.1 to 4.4).

The word lists of the rules are in ``words.toml``.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import rjieba

SHORT, INQUIRING_BOT, INQUIRING_USER, MEMORY = "short", "inquiring-bot", "inquiring-user", "inquiring-user-m"
PARAPHRASING, SYNONYM, ANTONYM, NEGATIVE = "paraphrasing", "perturb-synonym", "perturb-antonym", "perturb-negative"
REPEAT, PERSONA = "repeat", "persona"  # beyond the paper
WHY = "你为什么这么说？"  # the question if b1 names nothing that can be asked about
_CLAUSE = re.compile(r"[，,。！!；;？?\s]+")
_NUMBER = r"[零一二两三四五六七八九十百千几半\d]+"
_LAST_ADDRESS = re.compile(r"^(.*你(?:们)?)([^你]*)$")
_PEOPLE = "(?:的|们|爸爸|妈妈|父母|老板|孩子|爱人|家|朋友|同事)+"
_NOT_BEFORE_IS = f"{_PEOPLE}|是|头发|脾气|身体"  # 是不是 does not fit between 你 and these


@cache
def lists() -> dict[str, Any]:
    """The lists of ``words.toml``, by name."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def short(u1: str, b1: str, chance: Random) -> str:
    """A short utterance that says little."""
    return chance.choice(lists()["short"])


def inquiring_bot(u1: str, b1: str, chance: Random) -> str:
    """A question about something that b1 names."""
    return ask_about(b1, of_bot=True, chance=chance) or WHY


def inquiring_user(u1: str, b1: str, chance: Random) -> str | None:
    """A question about something that the user said in u1; None if nothing can be asked about."""
    return ask_about(u1, of_bot=False, chance=chance)


def memory(u1: str, b1: str, chance: Random) -> str | None:
    """Whether the bot knows what the user said in u1: 你知道我多大了吗."""
    question = ask_about(u1, of_bot=False, chance=chance)
    return question and f"你知道{question.rstrip('？?')}吗？"


def paraphrase(u1: str, b1: str, chance: Random) -> str | None:
    """u1 in other words, as a translation there and back leaves it."""
    words = lists()
    text = u1.strip().replace("?", "？")
    text = re.sub(rf"^(?:(?:{'|'.join(words['openers'])})[，,！!。]?)+", "", text) or text
    text = re.sub(rf"(?:{'|'.join(words['particles'])})+？$", "？", text)
    for pattern, replacement in words["paraphrases"]:
        text = re.sub(pattern, replacement, text)
    if text == u1 and text.endswith("吗？") and not re.search(f"你(?:们)?(?:{_NOT_BEFORE_IS})", text):
        # The question that leaves both answers open.
        text = _LAST_ADDRESS.sub(lambda match: f"{match[1]}是不是{match[2].removesuffix('吗？')}？", text)
    elif text == u1 and text.endswith("吗？"):
        text = f"我想问一下，{text}"
    elif text == u1 and text.endswith("？"):
        text = f"能告诉我{text.removesuffix('？')}吗？"
    return text if text != u1 else None


def synonym(u1: str, b1: str, chance: Random) -> str | None:
    """u1 with one or two words replaced by synonyms."""
    return _replace(u1, lists()["synonyms"], chance, most=2)


def antonym(u1: str, b1: str, chance: Random) -> str | None:
    """u1 with a word replaced by its antonym."""
    return _replace(u1, lists()["antonyms"], chance, most=1)


def negate(u1: str, b1: str, chance: Random) -> str | None:
    """u1 with a negation put in or taken out."""
    rules = lists()["negation"]
    match = _LAST_ADDRESS.match(u1.replace("?", "？"))
    if not match:
        return None
    before, rest = match.groups()
    if owner := re.match(_PEOPLE, rest):  # the verb is about somebody else, who comes first
        before, rest = before + owner[0], rest[owner.end() :]
    words = rjieba.cut(rest)
    edges = {0, *accumulate(map(len, words))}
    for pattern, replacement in rules["patterns"]:
        for occurrence in re.finditer(pattern, rest):
            # Only between words: no 不 inside 恋爱.
            if {occurrence.start(), occurrence.end()} <= edges or "？" in occurrence[0]:
                return before + rest[: occurrence.start()] + occurrence.expand(replacement) + rest[occurrence.end() :]
    place = next((index for index, word in enumerate(words) if word in rules["plain"]), None)
    return None if place is None else before + "".join([*words[:place], "不", *words[place:]])


def _replace(text: str, words: Mapping[str, list[str]], chance: Random, most: int) -> str | None:
    """Replaces words of a text by words of a list; whole words, or else the longest that occurs."""
    parts = rjieba.cut(text)
    places = [index for index, part in enumerate(parts) if part in words]
    if not places:
        longest = max((word for word in words if len(word) > 1 and word in text), key=len, default=None)
        return text.replace(longest, chance.choice(words[longest]), 1) if longest else None
    for index in chance.sample(places, min(most, len(places))):
        parts[index] = chance.choice(words[parts[index]])
    return "".join(parts)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Pattern of a clause, and the question about it."""
    words = lists()
    relatives, jobs = ("|".join(sorted(words[key], key=len, reverse=True)) for key in ("relatives", "occupations"))
    adverbs, times = (f"(?:{'|'.join(words[key])})*" for key in ("adverbs", "times"))
    parts = {
        "START": f"(?P<s>我(?:们)?(?:家里?|的)?(?:{relatives})?)?{adverbs}(?P<t>{times}){adverbs}",
        "NUMBER": _NUMBER,
        "JOBS": f"(?:{jobs})",
        "CLASSIFIERS": f"[{words['classifiers']}]",
    }
    return [
        (re.compile(re.sub("|".join(parts), lambda match: parts[match[0]], pattern)), question)
        for pattern, question in words["questions"]
    ]


@cache
def _any_of(name: str) -> re.Pattern[str]:
    return re.compile("|".join(lists()[name]))


def ask_about(text: str, *, of_bot: bool, chance: Random | None = None) -> str | None:
    """A question about one fact in what somebody said; None if the rules find none.

    Args:
        text: what was said, in the first person.
        of_bot: whether the bot said it. The question is then in the second person; otherwise the user asks about
            themselves.
        chance: chooses among several facts; by default the first is taken.
    """
    clauses = [clause for clause in _CLAUSE.split(text) if len(clause) > 1 and not _any_of("no_fact").search(clause)]
    candidates = list(dict.fromkeys(filter(None, map(_ask_clause, clauses))))
    candidates = candidates or list(filter(None, map(_ask_word, clauses)))
    if not candidates:
        return None
    question = chance.choice(candidates) if chance else candidates[0]
    return question.replace("我", "你") if of_bot else question


def _ask_clause(clause: str) -> str | None:
    """A question by the first pattern that fits."""
    clause = re.sub(r"的?[呀啊呢哦啦哈嘛]+$", "", clause)
    for pattern, question in _patterns():
        if match := pattern.search(clause):
            parts = {"t": "", **{name: value or "" for name, value in match.groupdict().items()}}
            if "哪里？" in question and "去" in parts.get("v", "") and not _is_place(parts["x"]):
                question = "{s}{t}做什么？"
            parts["s"] = parts.get("s") or "我"
            return question.format(**parts)
    return None


def _is_place(text: str) -> bool:
    return bool(_any_of("places").search(text)) or any(kind == "ns" for _, kind in rjieba.tag(text))


def _ask_word(clause: str) -> str | None:
    """A question about the first word that names a person, a place, a thing or an activity."""
    tagged = rjieba.tag(clause)  # words with their classes as jieba names them: n, v, nr, ns, …
    for word, kind in tagged:
        if kind == "ns" and len(word) > 1:
            return "我是哪里人？" if re.search(f"是大?{word}.*的$", clause) else f"{word}在哪里？"
        if kind in ("nr", "nrt") and len(word) > 1:
            return f"{word}是谁？"
    for word, kind in tagged:
        if len(word) < 2 or word in lists()["empty"] or re.search("[我你要]", word):
            continue
        if kind in ("n", "nz", "l"):
            return f"什么样的{word}？"
        if kind in ("v", "vn"):
            return f"我什么时候{word}？"
    return None


# Name -> the method. It takes u1, b1 and a source of random numbers; it gives None where its rules find nothing.
METHODS: Mapping[str, Callable[[str, str, Random], str | None]] = {
    SHORT: short,
    INQUIRING_BOT: inquiring_bot,
    INQUIRING_USER: inquiring_user,
    MEMORY: memory,
    PARAPHRASING: paraphrase,
    SYNONYM: synonym,
    ANTONYM: antonym,
    NEGATIVE: negate,
}
ABOUT_THE_USER = (INQUIRING_USER, MEMORY)  # they need an opening that tells something
