"""The eight methods of the paper (sections 4.1 to 4.4) that make the second thing the user says, by rules alone."""

import re
from collections.abc import Callable, Mapping
from itertools import accumulate
from random import Random

from contradiction.probing import questions
from contradiction.probing.words import lists, segment

SHORT, INQUIRING_BOT, INQUIRING_USER, MEMORY = "short", "inquiring-bot", "inquiring-user", "inquiring-user-m"
PARAPHRASING, SYNONYM, ANTONYM, NEGATIVE = "paraphrasing", "perturb-synonym", "perturb-antonym", "perturb-negative"
REPEAT, PERSONA = "repeat", "persona"  # beyond the paper
WHY = "你为什么这么说？"  # the question if b1 names nothing that can be asked about
_LAST_ADDRESS = re.compile(r"^(.*你(?:们)?)([^你]*)$")
_PEOPLE = "(?:的|们|爸爸|妈妈|父母|老板|孩子|爱人|家|朋友|同事)+"
_NOT_BEFORE_IS = f"{_PEOPLE}|是|头发|脾气|身体"  # 是不是 does not fit between 你 and these


def short(u1: str, b1: str, chance: Random) -> str:
    """A short utterance that says little."""
    return chance.choice(lists()["short"])


def inquiring_bot(u1: str, b1: str, chance: Random) -> str:
    """A question about something that b1 names."""
    return questions.ask(b1, of_bot=True, chance=chance) or WHY


def inquiring_user(u1: str, b1: str, chance: Random) -> str | None:
    """A question about something that the user said in u1; None if nothing can be asked about."""
    return questions.ask(u1, of_bot=False, chance=chance)


def memory(u1: str, b1: str, chance: Random) -> str | None:
    """Whether the bot knows what the user said in u1: 你知道我多大了吗."""
    question = questions.ask(u1, of_bot=False, chance=chance)
    return question and questions.embed(question)


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
    words = segment(rest)
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
    parts = segment(text)
    places = [index for index, part in enumerate(parts) if part in words]
    if not places:
        longest = max((word for word in words if len(word) > 1 and word in text), key=len, default=None)
        return text.replace(longest, chance.choice(words[longest]), 1) if longest else None
    for index in chance.sample(places, min(most, len(places))):
        parts[index] = chance.choice(words[parts[index]])
    return "".join(parts)


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
