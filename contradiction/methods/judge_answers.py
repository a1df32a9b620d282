"""The label in what a language model answers."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from contradiction.labels import CONTRADICTION, HISTORY, INTRA, NON_CONTRADICTION, ROLE
from contradiction.spoken import said

# Label -> other names that language models give it, in the form that `_normal` returns.
_SPELLINGS: Mapping[str, str] = {
    NON_CONTRADICTION: "noncontradiction no-contradiction not-contradiction not-a-contradiction none consistent "
    "无 不矛盾 无矛盾 没有矛盾 非矛盾 不存在矛盾 一致",
    INTRA: "intra intrasentence intra-sentence-contradiction self-contradiction 句内矛盾 句内 自相矛盾",
    ROLE: "role roleconfusion role-confusion-contradiction 角色混淆 角色混乱",
    HISTORY: "history-contradiction historical-contradiction 历史矛盾 与历史矛盾 历史",
    CONTRADICTION: "contradictory 矛盾 有矛盾 存在矛盾",
}
_LONGEST = 8000  # characters at the end of an answer that are read
_MARKS = "\"'`*“”‘’「」"
_SENTENCE_END = r"[。！？!?；;\n]|(?<!\d)\.(?:\s|$)"
# A label in JSON, also with the usual slips, or in a statement; not in JSON within a JSON string, with escaped quotes.
_STATED = re.compile(
    r"(?<![a-z\\])(?:label|answer|verdict|conclusion|result|output|标签|答案|结论|判断|结果|输出|本题)"
    rf"[\s{_MARKS}]*(?:[:：=]|是|为|\bis\b)[\s:：{_MARKS}]*(.+?)(?:[\"'“”}},，]|{_SENTENCE_END}|$)",
    re.IGNORECASE,
)
_WRAPPING = re.compile(r"```\w*|</?(?:answer|final|json|label|output|result|verdict)>", re.IGNORECASE)


def read_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a language model gives; None if it gives none, or two different ones.

    A label is given in JSON, or in a statement such as "the label is history"; without either it may be the last line,
    or the first sentence if no other label is mentioned after it. What the model thinks before does not count.
    """
    text = _WRAPPING.sub("", said(text).text[-_LONGEST:]).strip()
    stated = {label for match in _STATED.finditer(text) if (label := _label(match[1], labels))}
    if stated:
        return stated.pop() if len(stated) == 1 else None
    if last := _label(text.rpartition("\n")[2], labels):
        return last
    first, *rest = re.split(_SENTENCE_END, text, maxsplit=1)
    label = _label(first, labels)
    return None if any(other in _normal(part) for part in rest for other in labels if other != label) else label


def _label(text: str, labels: Sequence[str]) -> str | None:
    """The label of a name, a number, or both that agree, such as ``Role Confusion``, 2, and ``2. role-confusion``."""
    # The pattern matches any text.
    number, name = re.fullmatch(r"(\d{0,9})[-.:)、]*(.*)", _normal(text), re.DOTALL).groups()  # type: ignore[union-attr]
    numbered = labels[int(number)] if number and int(number) < len(labels) else None
    # Such as "历史矛盾 (history)".
    names = {
        next((label for label in labels if part in (label, *_SPELLINGS.get(label, "").split())), None)
        for part in filter(None, (part.strip("-") for part in re.split(r"[()]", name)))
    }
    named = names.pop() if len(names) == 1 else None
    if number and name:
        return named if named == numbered else None
    return numbered if number else named


def _normal(name: str) -> str:
    """A name in lower case, with hyphens between its words, and without what surrounds it."""
    name = unicodedata.normalize("NFKC", name).translate(dict.fromkeys(map(ord, _MARKS)))
    return re.sub(r"[\s_\-‐–—]+", "-", name.casefold().strip(" \t\r\n.。,{}[]()<>"))
