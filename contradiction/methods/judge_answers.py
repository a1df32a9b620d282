"""The label in the answer of a language model."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml

from contradiction.labels import CONTRADICTION, HISTORY, INTRA, NON_CONTRADICTION, ROLE
from contradiction.spoken import said

# Label -> other names that language models give it, in the form that `_plain` returns.
SPELLINGS: Mapping[str, str] = {
    NON_CONTRADICTION: "noncontradiction no-contradiction not-contradiction not-a-contradiction none consistent "
    "无 不矛盾 无矛盾 没有矛盾 非矛盾 不存在矛盾 一致",
    INTRA: "intra intrasentence intra-sentence-contradiction self-contradiction 句内矛盾 句内 自相矛盾",
    ROLE: "role roleconfusion role-confusion-contradiction 角色混淆 角色混乱",
    HISTORY: "history-contradiction historical-contradiction 历史矛盾 与历史矛盾 历史",
    CONTRADICTION: "contradictory 矛盾 有矛盾 存在矛盾",
}
KEYS = ("label", "标签")  # of the label in a JSON object
LONGEST = 8000  # characters at the end of an answer that are read
DEEPEST = 8  # objects within a JSON object that is not valid
_NAMED = r"(?:label|answer|verdict|conclusion|result|output|标签|答案|结论|判断|结果|输出|本题)"
_IS = r"\s*(?:is|是|为|[:：=])[\s:：=]*"
_ANNOUNCED = re.compile(rf"{_NAMED}{_IS}$", re.IGNORECASE)
_STATEMENT = re.compile(
    rf"(?:(?:the|my|final|correct|so|therefore|最终|正确|所以|因此)[\s,，]*)*(?:{_NAMED}|it|this|这){_IS}(.+)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"例如|比如|譬如|例子|示例|举例|格式|example|for instance|such as|e\.g\.|format", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[。！？!?；;\n]|\.\s+(?=[A-Z])")
_MARKS = re.compile(r"[\"'`*“”‘’「」]")
_WRAPPING = re.compile(r"```\w*|</?(?:answer|final|json|label|output|result|verdict)>", re.IGNORECASE)
_CHINESE_MARKS = str.maketrans("“”＂：，", '""":,')
_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)


def read_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a language model gives; None if it gives none, or two different ones.

    What the model thinks before it answers does not count, and neither do examples. A JSON object that stands alone on
    its lines or follows "the answer is" comes before one within a sentence. A statement such as "the label is history"
    needs no JSON. A label may also be the whole last line, or come first if no other label is mentioned after it.
    """
    texts, objects = _split(_WRAPPING.sub("", said(text).text[-LONGEST:]))
    stated: list[str | None] = []
    mentioned: list[str | None] = []
    for before, value, after in zip(texts, objects, texts[1:], strict=False):
        lead = _lead(before)
        if _EXAMPLE.search(lead):
            continue
        alone = not re.search(r"\w", before.rpartition("\n")[2] + after.partition("\n")[0])
        (stated if alone or _ANNOUNCED.search(lead) else mentioned).append(_label(value, labels))
    clauses = [_MARKS.sub("", clause).strip() for text in texts for clause in _CLAUSE_END.split(text)]
    statements = [match[1] for clause in clauses if (match := _STATEMENT.fullmatch(clause))]
    stated += filter(None, [_label(statement, labels) for statement in statements])
    if not objects and not stated:
        stated = [_bare(texts[0].strip(), labels)]
    answers = set(stated or mentioned)
    return answers.pop() if len(answers) == 1 else None


def _bare(text: str, labels: Sequence[str]) -> str | None:
    """The label that is the last line of a text, or its first sentence if the rest mentions no other."""
    last = _label(text.rpartition("\n")[2], labels)
    first, *rest = _CLAUSE_END.split(text, maxsplit=1)
    label = _label(first, labels)
    if last or any(other in _plain(part) for part in rest for other in labels if other != label):
        return last
    return label


def _label(value: object, labels: Sequence[str]) -> str | None:
    """The label of a name, a number, or both that agree, such as ``Role Confusion``, 2, and ``2. role-confusion``."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    # The pattern matches any text.
    number, name = re.fullmatch(r"(\d{0,9})[-.:)、]*(.*)", _plain(str(value)), re.DOTALL).groups()  # type: ignore[union-attr]
    numbered = labels[int(number)] if number and int(number) < len(labels) else None
    # Such as "历史矛盾 (history)".
    names = {
        next((label for label in labels if part in (label, *SPELLINGS.get(label, "").split())), None)
        for part in filter(None, (part.strip("-") for part in re.split(r"[()]", name)))
    }
    named = names.pop() if len(names) == 1 else None
    if number and name:
        return named if named == numbered else None
    return numbered if number else named


def _plain(name: str) -> str:
    """A name in lower case, with hyphens between its words, and without what surrounds it."""
    words = _MARKS.sub("", unicodedata.normalize("NFKC", name)).casefold().strip(" \t\r\n.。,{}[]()<>")
    return re.sub(r"[\s_\-‐–—]+", "-", words)


def _lead(before: str) -> str:
    """The clause that leads to what follows a text, on the same line or with a colon at the end of an earlier one."""
    lead = before.rstrip()
    if "\n" in before[len(lead) :] and not lead.endswith((":", "：")):
        return ""
    return _CLAUSE_END.split(lead)[-1]


def _split(text: str) -> tuple[list[str], list[Any]]:
    """The complete JSON objects with a label in a text, by their labels, and the texts before, between and after."""
    texts, values, done = [], [], 0
    for start, end, value in _objects(text):
        names = {str(key).strip().lower(): item for key, item in value.items()}
        if start >= done and (key := next((key for key in KEYS if key in names), None)):
            texts.append(text[done:start])
            values.append(names[key])
            done = end
    return [*texts, text[done:]], values


def _objects(text: str) -> Iterator[tuple[int, int, Mapping[Any, Any]]]:
    """The JSON objects in a text with their places, those within others too."""
    ends: dict[int, int] = {}
    open_braces: list[int] = []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif open_braces:
            ends[open_braces.pop()] = brace.end()
    for brace in re.finditer(r"\{", text):
        start = brace.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = ends.get(start, start)
            value = _read_leniently(text[start:end])
        if isinstance(value, Mapping):
            yield start, end, value


def _unambiguous(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, with None for a key that has two different values."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        values[key] = value if values.setdefault(key, value) == value else None
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_unambiguous)


def _read_leniently(text: str) -> Any:
    """The value of a JSON object with single quotes, comments, a trailing comma, or ``True``; None of another text.

    YAML, of which JSON is a part, allows all of these but the comments. The marks may be those of Chinese texts.
    """
    if text.count("{") > DEEPEST or not any(key in text.lower() for key in KEYS):
        return None
    for form in (text, text.translate(_CHINESE_MARKS)):
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            value = yaml.safe_load(_COMMENT.sub(r"\1", form).replace("\t", " "))
            if isinstance(value, Mapping) and any(str(key).strip().lower() in KEYS for key in value):
                return value
    return None
