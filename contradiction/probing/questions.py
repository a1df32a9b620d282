"""Turns what somebody said about themselves into a question that they have just answered."""

import re
from functools import cache
from random import Random

from contradiction.probing.words import lists, tag

_CLAUSE = re.compile(r"[，,。！!；;？?\s]+")
_NUMBER = r"[零一二两三四五六七八九十百千几半\d]+"


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


def ask(text: str, *, of_bot: bool, chance: Random | None = None) -> str | None:
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
    return bool(_any_of("places").search(text)) or any(kind == "ns" for _, kind in tag(text))


def _ask_word(clause: str) -> str | None:
    """A question about the first word that names a person, a place, a thing or an activity."""
    tagged = tag(clause)
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


def embed(question: str) -> str:
    """The question inside another: 我多大了 becomes 你知道我多大了吗."""
    return f"你知道{question.rstrip('？?')}吗？"
