"""What of a message is said to the user: not the thoughts of a model, and not its calls of tools.

Vendors mark these in many ways: with tags of any name and bracket in the text, with parts, with items without a role,
and under keys of their own. One list of names recognises them all.
"""

import re
from collections.abc import Mapping
from typing import Any

from contradiction.markup import Extract

# The types of parts and items, and the keys and channels, of what is not said to the user.
_UNSPOKEN = re.compile(
    r"think|thought|reasoning|analysis|reflection|scratch.?pad|commentary|tool|function|(?:^|[_-])calls?(?:[_-]|$)"
    r"|mcp[_-]|execut|observation|ipython|item_reference|compaction|cache.?point|^(?:step|source|data)-",
    re.IGNORECASE,
)
# The roles; another role may be a speaker of its own.
_UNSPOKEN_ROLE = re.compile(
    r"(?:tool|function)(?:[ _-]?(?:calls?|use|responses?|results?|outputs?))?|ipython|observation|environment"
    r"|think(?:ing)?|thoughts?|reasoning|analysis",
    re.IGNORECASE,
)

_THOUGHT = (
    r"(?:ant[_-]?)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion|ing)?|analysis|scratch[_-]?pad"
    r"|(?:inner|internal|hidden)[_ -]?(?:thoughts?|monologue|voice)|chain[_-]of[_-]thoughts?|cot"
    r"|思考(?:过程|内容)?|推理(?:过程)?|内心(?:独白|活动|想法)?)(?:[_-](?:process|content|block))?"
)
_TOOL = r"(?:tool|function)(?:[_▁ -]?(?:calls?|use|uses|responses?|results?|outputs?|code))?|invoke"
_LEFT, _RIGHT = r"(?:<|&lt;|＜|◁|\[|【)", r"(?:>|&gt;|＞|▷|\]|】)"


def _bracketed(names: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The mark before a block and the mark after it, for tags and special tokens with one of these names."""
    space, bar, name = r"[_▁ ]?", r"\s?[|｜]?", rf"(?:\w{{1,20}}:)?(?:{names})"
    attributes = r"(?:[\s=][^<>\[\]\n]{0,200})?"
    begin = rf"{_LEFT}{bar}(?:(?:begin|start)(?:_of)?_)?{name}(?:{space}(?:begin|start))?{attributes}{bar}{_RIGHT}"
    end = rf"{_LEFT}{bar}(?:/\s?{name}|end(?:_of)?_{name}|{name}{space}end){bar}{_RIGHT}"
    return re.compile(begin, re.IGNORECASE), re.compile(end, re.IGNORECASE)


_CHANNEL = re.compile(
    r"(?:<\|start\|>\s*\w{0,20})?<\|?channel\|?>\s*(?:analysis|commentary|thought|thinking)\b", re.IGNORECASE
)
_CHANNEL_END = re.compile(r"<\|(?:end|call|return)\|>|<channel\|>|(?=<\|(?:start|channel)\|>)", re.IGNORECASE)
_DETAILS = re.compile(
    r"""<details\b[^<>]{0,300}\btype=["']?(?:reasoning|tool_calls?|code_interpreter)\b[^<>]{0,3000}>"""
    r"|<details\b[^<>]{0,300}>\s*<summary>[^<]{0,80}(?:思考|推理|think|thought|reason)[^<]{0,80}</summary>",
    re.IGNORECASE,
)
# A mark before a block -> the mark after it.
_BLOCKS = (
    _bracketed(_THOUGHT),
    _bracketed(_TOOL),
    (_CHANNEL, _CHANNEL_END),
    (_DETAILS, re.compile(r"</details>", re.IGNORECASE)),
    (re.compile(r"<unused94>"), re.compile(r"<unused95>")),
    (re.compile(r"\[TOOL_CALLS\]|<\|python_tag\|>"), re.compile(r"<\|(?:eom|eot)_id\|>|</s>")),
    (re.compile(r":::\s?(?:thinking|thought|reasoning)\b", re.IGNORECASE), re.compile(r"^:::[ \t]*$", re.MULTILINE)),
    (re.compile(r"^```(?:thinking|thoughts?|reasoning)$", re.I | re.M), re.compile(r"^```[ \t]*$", re.MULTILINE)),
)
_THOUGHT_BEGIN, _THOUGHT_END = _BLOCKS[0]
# Within a sentence, a short pair of marks is spoken about, as in <think>和</think>是标签.
_WITHIN = re.compile(r"[\w，,、：:`\"'“‘「（(][ \t]*\Z")
_SHORT = 6
# A heading before the thoughts and one before the answer.
_HEADINGS = re.compile(
    r"\A\W{0,4}(?:(?:thoughts?|thinking|reasoning|analysis|思考|思考过程|推理|推理过程|内心独白)\W{0,3}[:：\]】]"
    r".*?^\W{0,4}(?:final answer|answer|final response|response|reply|最终回答|最终答案|回答|回复|答案)\W{0,3}[:：\]】]"
    r"|here(?:'s| is) my thought process:.*?here(?:'s| is) my response:)[*\s]*",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
# The channels of a text whose special tokens were lost.
_LOST_CHANNELS = re.compile(r"\Aanalysis(?![a-z\s:]).*?assistant\s?final", re.DOTALL)
_SPACES = re.compile(r"\s*")
_ANSWER = re.compile(r"(?:<\|start\|>\s*\w{0,20})?<\|channel\|>\s*final\s?<\|message\|>", re.IGNORECASE)


def is_unspoken(name: object) -> bool:
    """Whether a type, key or channel of this name holds what is not said to the user."""
    return isinstance(name, str) and _UNSPOKEN.search(name) is not None


def is_unspoken_item(item: Mapping[str, Any]) -> bool:
    """Whether a message, an item or a part says nothing to the user by its role, its type or its channel."""
    role = item.get("role")
    if isinstance(role, str) and _UNSPOKEN_ROLE.fullmatch(role):
        return True
    is_thought = any(item.get(key) is True for key in ("thought", "is_thought", "isThought"))
    return is_thought or is_unspoken(item.get("type")) or is_unspoken(item.get("channel"))


def is_folded(message: Mapping[str, Any]) -> bool:
    """Whether Gradio shows a message of the assistant folded below a title: a thought, or the use of a tool."""
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and bool(metadata.get("title"))


def has_unspoken_keys(item: Mapping[str, Any]) -> bool:
    """Whether a message or part has thoughts or calls under keys of their own, such as ``reasoning_content``."""
    return any(is_unspoken(key) and _is_given(value) for key, value in item.items())


def _is_given(value: Any) -> bool:
    """Whether a value is not empty; also works for arrays, which have no truth value."""
    return len(value) > 0 if hasattr(value, "__len__") else bool(value)


def said(text: str) -> Extract:
    """What a text of the assistant says: without thoughts and calls of tools, of any vendor, at any place.

    A block that was cut off ends with the text. A text that begins within its thoughts, because the server left out the
    first mark, begins after the last mark. Marks that a sentence speaks about are text.
    """
    extract = Extract.whole(text)
    if not re.search(
        r"[<＜◁\[【]|&lt;|:::|```|\A\W{0,4}(?:thought|think|reason|analysis|here|思考|推理|内心)", text, re.I
    ):
        return extract
    for begin, end in _BLOCKS:
        extract = _without_blocks(extract, begin, end)
    extract = _without_beginning(extract)
    return extract.sub(_LOST_CHANNELS).sub(_HEADINGS).sub(_ANSWER)


def _without_blocks(extract: Extract, begin: re.Pattern[str], end: re.Pattern[str]) -> Extract:
    text, kept, done, place = extract.text, [], 0, 0
    closing = end.search(text)
    while opening := begin.search(text, place):
        # One mark may end many blocks; searched for again from each of them, it would take quadratic time.
        if closing and closing.start() < opening.end():
            closing = end.search(text, opening.end())
        place = opening.end()
        within = _WITHIN.search(text, max(0, opening.start() - 8), opening.start())
        if closing is None:
            # A bracket such as [思考] alone is a sticker.
            if within or (opening[0][0] in "[【" and opening[0] not in ("[THINK]", "[TOOL_CALLS]")):
                continue
            stop = len(text)
        elif within and closing.start() - opening.end() <= _SHORT:
            place = closing.end()
            continue
        else:
            stop = closing.end()
        kept.append((done, opening.start()))
        done = place = _after_spaces(text, stop)
    if not done:
        return extract
    kept.append((done, len(text)))
    if not text[: kept[0][1]].strip():
        kept[0] = (0, 0)
    places = [place for start, stop in kept for place in extract.places[start:stop]]
    return Extract("".join(text[start:stop] for start, stop in kept), places)


def _without_beginning(extract: Extract) -> Extract:
    """Without the thoughts before a mark that ends them, where no mark begins them."""
    text, start = extract.text, 0
    while (end := _THOUGHT_END.search(text, start)) and not _THOUGHT_BEGIN.search(text, start, end.start()):
        if text.endswith("`", start, end.start()):
            break
        start = _after_spaces(text, end.end())
    return extract[start:]


def _after_spaces(text: str, place: int) -> int:
    """The end of the spaces at a place. With a copy of the rest, a text of many blocks would take quadratic time."""
    spaces = _SPACES.match(text, place)
    return spaces.end() if spaces else place
