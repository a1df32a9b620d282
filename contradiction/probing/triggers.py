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
LONGEST_FACT = 200  # characters of a clause; the time of the patterns grows with the square of its length
WHY = "你为什么这么说？"  # the question if b1 names nothing that can be asked about
_CLAUSE = re.compile(r"[，,。！!；;？?\s]+")
_NUMBER = r"[零一二两三四五六七八九十百千几半\d]+"
_LAST_ADDRESS = re.compile(r"^(.*你(?:们)?)([^你]*)$")
_OPEN = re.compile(r"([\u4e00-\u9fff]{1,2})不\1")  # a question that leaves both answers open: 忙不忙
_CHOICE = re.compile(r"还是[^吗]+$")
_SAME_CHOICE = re.compile(r"([\u4e00-\u9fff]+)还是\1[呀啊呢]?[？。]?$")
_TWICE = re.compile(r"([\u4e00-\u9fff]{2,})\1")
_WRONG = re.compile(r"是不是[^，]*吗？$|[很是有还]是不是|[吗呢不]吗|以前[^，]*了吗")
_NEGATION = re.compile(r"不(?!错|过|同|久|管|但|仅|少)|没|从不")
_NEGATION_TWICE = re.compile(r"[不没][不没]|没[^，]*(?:不|没有|了吗)|不[^，]*不？")
_FACT = re.compile(r"什么|哪|谁|几|多[少久大长高重]|怎么|如何|为何|干[嘛吗]|啥")
_LAST_CLAUSE = re.compile(r"^(.*[，,。！!；;～~]\s*)?([^，,。！!；;～~]+[！!。～~]*)$", re.DOTALL)
_DISLIKE = re.compile(r"不(?:喜欢|爱|想|常|会做)[^，]*(?:什么|哪|谁)|(?:什么|哪|谁)[^，]*不(?:喜欢|爱|想)")


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
    return _change(u1, _paraphrase)


def synonym(u1: str, b1: str, chance: Random) -> str | None:
    """u1 with one or two words replaced by synonyms."""
    return _change(u1, lambda clause: _replace(clause, lists()["synonyms"], chance, most=2))


def antonym(u1: str, b1: str, chance: Random) -> str | None:
    """u1 with a word replaced by its antonym; None for a choice between two, which has no opposite."""
    return _change(u1, lambda clause: _replace(clause, lists()["antonyms"], chance, most=1), opposite=True)


def negate(u1: str, b1: str, chance: Random) -> str | None:
    """u1 with a negation put in or taken out; None for a choice between two."""
    return _change(u1, _negate, opposite=True)


def _change(u1: str, change: Callable[[str], str | None], *, opposite: bool = False) -> str | None:
    """u1 with a change in its last clause, the one that asks; None if the result is no usual question."""
    match = _LAST_CLAUSE.match(u1.strip().replace("?", "？"))
    before, clause = (match[1] or "", match[2]) if match else ("", "")
    if opposite and ("你" not in clause or _CHOICE.search(clause)):
        return None
    changed = change(clause) if clause else None
    return before + changed if changed and changed != clause and is_askable(clause, changed) else None


def _paraphrase(clause: str) -> str:
    words = lists()
    text = re.sub(rf"^(?:(?:{'|'.join(words['openers'])})[，,！!。]?)+", "", clause) or clause
    text = re.sub(rf"(?:{'|'.join(words['particles'])})+？$", "？", text)
    for pattern, replacement in words["paraphrases"]:
        text = re.sub(pattern, replacement, text)
    if text != clause or not text.endswith("？"):
        return text
    if text.endswith("吗？") and (re.search("是|难道|很|最", text) or not _is_about_you(text)):
        return f"我想问一下，{text}"
    if text.endswith("吗？"):  # the question that leaves both answers open
        return re.sub("(你们?)(.*)吗？", r"\1是不是\2？", text)
    asks = _FACT.search(text) or _OPEN.search(text) or "还是" in text
    return f"能告诉我{text.removesuffix('？')}吗？" if asks else text


def _is_about_you(text: str) -> bool:
    """Whether 是不是 fits after the 你 of a question: not before a noun, as in 你酒量好吗."""
    match = re.match("你们?([^你]+)$", text)
    if not match or re.match(f"{_people()}|[这那好]", match[1]):
        return False
    return not rjieba.tag(match[1])[0][1].startswith("n")


def _negate(clause: str) -> str | None:
    rules = lists()["negation"]
    match = _LAST_ADDRESS.match(clause)
    if not match:
        return None
    before, rest = match.groups()
    if owner := re.match(_people(), rest):  # the verb is about somebody else, who comes first
        before, rest = before + owner[0], rest[owner.end() :]
    words = rjieba.cut(rest)
    edges = {0, *accumulate(map(len, words))}
    for pattern, replacement in rules["patterns"]:
        for occurrence in re.finditer(pattern, rest):
            # Only between words: no 不 inside 恋爱.
            if {occurrence.start(), occurrence.end()} <= edges or "？" in occurrence[0]:
                return before + rest[: occurrence.start()] + occurrence.expand(replacement) + rest[occurrence.end() :]
    following = [*words[1:], ""]
    place = next((i for i, word in enumerate(words) if word in rules["plain"] and following[i] != "得"), None)
    if place is None:
        return None
    return before + "".join([*words[:place], "没" if following[place].startswith("过") else "不", *words[place:]])


def _replace(text: str, words: Mapping[str, list[str]], chance: Random, most: int) -> str | None:
    """Replaces words of a text by words of a list; at each place the longest that fits."""
    edges = {0, *accumulate(map(len, rjieba.cut(text)))}
    kept = _OPEN.search(text)  # both halves of 忙不忙 stay alike
    spans: list[tuple[int, int]] = []
    for start in sorted(edges):
        ends = [end for end in edges if text[start:end] in words]
        inside = kept and ends and start < kept.end() and max(ends) > kept.start()
        if ends and not inside and (not spans or start >= spans[-1][1]):
            spans.append((start, max(ends)))
    for start, end in sorted(chance.sample(spans, min(most, len(spans))), reverse=True):
        text = text[:start] + chance.choice(words[text[start:end]]) + text[end:]
    return text if spans else None


def is_askable(u1: str, u2: str) -> bool:
    """Whether a person might say u2 after u1, as far as rules can tell.

    Not if it offers one alternative twice (在郊区还是郊区), says a word twice in a row that u1 says once, doubles a
    negation, or negates a question for a fact (不学的是什么专业). A question about likes may be negated.
    """
    twice = any(match[0] not in u1 for match in _TWICE.finditer(u2))
    if twice or _SAME_CHOICE.search(u2) or (_WRONG.search(u2) and not _WRONG.search(u1)):
        return False
    negations = len(_NEGATION.findall(u2)) > len(_NEGATION.findall(u1))
    asks_for_fact = _FACT.search(u2) or "还是" in u2
    return not (negations and (asks_for_fact or _NEGATION_TWICE.search(u2)) and not _DISLIKE.search(u2))


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Pattern of a clause, and the question about it."""
    words = lists()
    relatives, jobs = map(_longest_first, ("relatives", "occupations"))
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


def _longest_first(name: str) -> str:
    return "|".join(sorted(lists()[name], key=len, reverse=True))


@cache
def _people() -> str:
    """Whose it is, after 你."""
    return f"(?:的|们|{_longest_first('relatives')})+"


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
    clauses, of_self = [], True
    for clause in _CLAUSE.split(text):
        # A clause without a subject goes on about what was named before it: 我的猫叫敦敦，喜欢鱼.
        of_self = not re.match(f"我的|我们?(?:{_longest_first('relatives')})", clause) if "我" in clause else of_self
        if 1 < len(clause) <= LONGEST_FACT and ("我" in clause or of_self) and not _any_of("no_fact").search(clause):
            clauses.append(clause)
    candidates = list(dict.fromkeys(filter(None, map(_ask_clause, clauses))))
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
            if parts.get("place") and not _is_place(parts["place"]):
                if "去" not in parts.get("v", ""):
                    continue
                question = "{s}{t}做了什么？" if re.match("昨|上|去年", parts["t"]) else "{s}{t}做什么？"
            parts["s"] = parts.get("s") or "我"
            return question.format(**parts)
    return None


def _is_place(text: str) -> bool:
    return bool(_any_of("places").search(text)) or any(kind == "ns" for _, kind in rjieba.tag(text))


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
