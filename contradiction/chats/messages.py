"""Messages: objects in the shape of any tool, and text in which each begins with its speaker, as in ``用户：你好``."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby, pairwise
from typing import Any

from contradiction.chats import names
from contradiction.chats.names import KNOWN, REMEDY, SYSTEM, TOOL, USUAL, Speakers, without_number
from contradiction.conversation import ASSISTANT, USER, alternating
from contradiction.errors import InputError, shown

_AFTERNOON = re.compile(r"下午|晚上|傍晚|\bp\.?m\b", re.IGNORECASE)
_MORNING = re.compile(r"上午|凌晨|早上|\ba\.?m\b", re.IGNORECASE)
_CLOCK = re.compile(r"(?<!\d)(\d{1,2})[:：时](\d{2})(?:[:：分](\d{2}(?:[.,]\d+)?))?")
_DATE = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})|(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})|(\d{1,2})月(\d{1,2})")

Moment = tuple[float, ...]
_Block = tuple[int, str, int]  # lines of text: the number of the first, the text, and where it ends
_Form = tuple[bool, str, bool]  # of the beginning of a message; a long chat has few
CLOCK = 3  # numbers of a time of day without a date


def moment(value: object) -> Moment | None:
    """A time as numbers that can be compared with others of the same kind; None if it is no time.

    A number counts as it is. Of a date with the year last, the order of day and month is unknown, so it does not
    compare with another such date.
    """
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return (float(text),)
    clock, date = _CLOCK.search(text), _DATE.search(text)
    if not clock and not date:
        return None
    hour, minute, second = (
        (float((part or "0").replace(",", ".")) for part in clock.groups()) if clock else (0.0, 0.0, 0.0)
    )
    if _AFTERNOON.search(text) and hour < 12:
        hour += 12
    elif _MORNING.search(text) and hour == 12:
        hour = 0.0
    return (*(float(part) for part in (date.groups() if date else ()) if part), hour, minute, second)


def moments(values: Sequence[object]) -> list[Moment] | None:
    """The times of messages; None if one is missing, or if they cannot be compared with one another."""
    read = [moment(value) for value in values]
    times = [time for time in read if time is not None]
    if len(times) < len(values) or len({len(time) for time in times}) > 1:
        return None
    if {len(time) for time in times} == {CLOCK}:  # perhaps of dates in another form, such as May 2, 2024
        beside = {tuple(re.findall(r"\d+", _CLOCK.sub("", str(value), count=1))) for value in values}
        if len(beside) > 1:
            return None
    year_last = [time for time in times if len(time) == 6 and time[0] < 1000 <= time[2]]
    new_year = {1, 12} <= {time[0] for time in times if len(time) == 5}  # without a year, either may be the first
    return None if new_year or len({time[:3] for time in year_last}) > 1 else times


def order(values: Sequence[object], roles: Sequence[str | None]) -> list[int] | None:
    """The places of messages from the oldest to the newest; None if they are in this order, or have no times."""
    times = moments(values)
    if not times or times == sorted(times):
        return None
    by_time = sorted(range(len(times)), key=times.__getitem__)
    clocks = len(times[0]) == CLOCK
    # Two clocks without a date may lie around midnight.
    if times != sorted(times, reverse=True) or (clocks and len(times) == 2):
        return None if clocks else by_time

    # Messages of one time may be the other way round too. In a chat the sides alternate, and the user begins.
    def likelihood(order: list[int]) -> tuple[int, bool]:
        sides = [roles[place] for place in order]
        return sum(one != other for one, other in pairwise(sides)), sides[0] == USER

    return max([*reversed(range(len(times)))], by_time, key=likelihood)


def read_messages(values: Sequence[Any], speakers: Speakers = USUAL) -> list[Any]:
    """The messages of a list, at the same places.

    The shapes are those of OpenAI (chat completions and Responses), Anthropic, Gemini, ShareGPT, LangChain, ChatGPT's
    and Telegram's exports, and any objects with one of ``names.SPEAKERS`` and one of ``names.TEXTS``. A value without
    a speaker stays as it is; :func:`contradiction.conversation.read_message` skips or refuses it.

    Raises:
        InputError: a speaker is unknown, or the messages have times and the newest is the first.
    """
    messages = [_read_object(value, f"messages[{index}]", speakers) for index, value in enumerate(values)]
    objects = [value for value in values if isinstance(value, Mapping)]
    speakers.check_one_bot(_speaker(_unwrapped(value), speakers)[1] for value in objects)
    key = names.first(objects[0], names.TIMES) if objects else None
    if key and order([one.get(key) for one in objects], [None] * len(objects)) == [*reversed(range(len(objects)))]:
        raise InputError(f"the messages begin with the newest, by {key}; they must begin with the oldest")
    return messages


def is_message(value: object) -> bool:
    """Whether an object names a speaker, as a message does, and holds no messages or question and answer, as a chat."""
    if not isinstance(value, Mapping) or any(isinstance(value.get(name), list | Mapping) for name in names.MESSAGES):
        return False
    if not names.first(value, names.TEXTS) and all(names.first(value, of) for of in (names.QUESTIONS, names.ANSWERS)):
        return False
    return _speaker(_unwrapped(value), USUAL)[1] is not None


def _read_object(value: Any, where: str, speakers: Speakers) -> Any:
    if not isinstance(value, Mapping):
        return value
    value = _unwrapped(value)
    key, speaker = _speaker(value, speakers)
    if speaker is None and value.get("type") == "service" and "actor" in value:  # of Telegram: who joined, who called
        return {"role": SYSTEM, "content": ""}
    if not isinstance(speaker, str):
        return value
    if (role := speakers.role_of(speaker)) is None:
        raise InputError(f"{where}: {key} {shown(speaker)} is no known speaker ({KNOWN}); {REMEDY}")
    rest = {name: value[name] for name in value if name != key}
    given = [name for name in rest if rest[name] is not None]
    if (text := "content" if "content" in given else names.first(given, names.TEXTS)) is not None:
        rest["content"] = _content(rest.pop(text), is_text=text == "text")
    return {**rest, "role": role}


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of LangChain, which some dumps keep inside another object."""
    if isinstance(value.get("kwargs"), Mapping) and isinstance(value.get("id"), list) and value["id"]:
        return {"type": str(value["id"][-1]), **{k: v for k, v in value["kwargs"].items() if k != "type"}}
    if isinstance(value.get("data"), Mapping) and "type" in value:
        return {**value["data"], "type": value["type"]}
    return value


def _speaker(value: Mapping[str, Any], speakers: Speakers) -> tuple[str | None, Any]:
    """The key of the speaker and the speaker; ``type`` counts only if it names one, as in LangChain."""
    given = [name for name in value if value[name] is not None]
    key = names.first(given, names.SPEAKERS)
    if key is not None:
        speaker = value[key]
        return key, speaker.get("role") or speaker.get("name") if isinstance(speaker, Mapping) else speaker
    kind = value.get("type")
    return ("type", kind) if speakers.role_of(kind) in ("user", "assistant", "system") else (None, None)


def _content(content: Any, *, is_text: bool) -> Any:
    """The content as text or as a list of parts."""
    if isinstance(content, Mapping):  # of ChatGPT's export
        content = content.get("parts", content.get("text"))
    if is_text and isinstance(content, list):  # of Telegram: pieces of one text with their styles
        return "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in content)
    return content


_WEEKDAY = "(?:星期|周)[一二三四五六日天]"
_DAY = rf"(?:\d{{1,4}}[-/.年]\d{{1,2}}[-/.月]\d{{1,4}}日?|\d{{1,2}}月\d{{1,2}}日|昨天|今天|前天|{_WEEKDAY})"
_HOUR = (
    r"(?:上午|下午|晚上|凌晨|早上|中午|傍晚)?\s?\d{1,2}[:：]\d{2}(?:[:：]\d{2})?(?:[.,]\d{1,6})?"
    r"(?:\s?[apAP]\.?[mM]\.?)?(?:Z|[+-]\d{2}:\d{2})?"
)
# Here and below, no two parts can share a run of spaces in several ways, which would take a long time for a long run.
_TIME = rf"(?:[\[【(（<]\s*)?(?:{_DAY}[\sT,，]*{_HOUR}|{_HOUR}|{_DAY}(?=[\]】)）>]))(?:\s*[\]】)）>])?"
_NAME = r"(?P<name>[^\W\d][^:：,，。、!！?？;；\[\]【】<>《》“”\"|\n]{0,23}?)"
_HEADS = [
    re.compile(pattern)
    for pattern in (
        rf"(?P<time>{_TIME})[\s\-–—,，]*+{_NAME}[\s*]*+(?P<colon>[:：])(?!//)(?P<text>.*)",  # [10:22] 用户：你好
        rf"(?P<time>{_TIME})[\s\-–—,，]*+{_NAME}(?:<[^<>\s]{{1,60}}>)?(?:\s(?P<text>.*))?$",  # 10:22 用户
        rf"{_NAME}[\s*@,，\-–—]*+(?P<time>{_TIME})[\s*]*(?P<colon>[:：]?)(?P<text>.*)",  # 用户 10:22
        rf"{_NAME}[\s*]*(?P<colon>[:：])(?!//)(?P<text>.*)",  # 用户：你好
        rf"[\[【<「]{_NAME}[\]】>」]\s*(?P<colon>[:：]?)(?P<text>.*)",  # 【用户】你好
        rf"{_NAME}\t+(?P<text>.*)",  # 用户, a tab, 你好
    )
]
# What may stand before each speaker: marks of lists, quotes and headings, a number, an emoji.
_MARK = re.compile(r"[\s\u3000*#>\-•]*(?:\d{1,3}[.、)）]\s*)?[^\w\s\[【(（<「\"'“‘]*\s*")
# A line of its own between messages or chats: a time, a rule, the title of a chat, or a notice of the messenger.
_ALONE = re.compile(
    rf"[\s\-–—=]*+(?:{_TIME}|\d{{4}}[-/.年]\d{{1,2}}[-/.月]\d{{1,2}}日?(?:\s*{_WEEKDAY}(?:\s*{_HOUR})?)?)[\s\-–—=]*|"
    rf"[\-–—=]{{2}}.*{_DAY}.*|[\s\-–—=*_]+|\s*[^:：，。]{{1,26}}(?:撤回了一条消息|撤回了一則訊息)\s*|"
    r"消息记录（此消息记录为文本格式.*|消息(?:分组|对象)[:：].*|"  # above an export of QQ
    r"\s*(?:我|[\"“][^\"”]{1,26}[\"”])\s*拍了拍\s*(?:我|[\"“][^\"”]{1,26}[\"”])\s*|"
    r"[\s\-–—=*#]*(?i:对话|会话|對話|會話|chat|conversation)\s*[\d一二三四五六七八九十]+[：:]?[\s\-–—=*]*"
)
_STARTS = re.compile(rf"\A{_TIME}\s*")
_ENDS = re.compile(rf"(?<!\s)\s*[\[【(（]\s*(?:{_DAY}[\sT,，]*)?{_HOUR}\s*[\]】)）]$")
_TAGS = re.compile(r"<\|(?:im_start|start_header_id)\|>\s*(\w+)\s*(?:<\|end_header_id\|>)?\s*")
_END_TAGS = re.compile(r"<\|(?:im_end|eot_id|begin_of_text|endoftext)\|>")
# What stands above each message in a chat that is copied from ChatGPT.
_COPIED = (
    (re.compile(r"^[ \t]*+(?:[您你]说|You said)[：:][ \t]*$", re.IGNORECASE | re.MULTILINE), "user:"),
    (re.compile(r"^[ \t]*+ChatGPT\s?(?:说|said)[：:][ \t]*$", re.IGNORECASE | re.MULTILINE), "assistant:"),
)
# Words before a colon that begin a line of a reply, and are no speaker.
_NO_SPEAKER = re.compile(
    r".*(?:时间|日期|地点|地址|电话|手机|邮箱|网址|链接|价格|单价|费用|金额|总价|数量|名称|姓名|型号|规格|颜色|尺寸|"
    r"单号|编号|号码|状态|原因|结果|结论|总结|说明|备注|注意|注意事项|提示|建议|推荐|步骤|方法|方式|例如|比如|例|注|"
    r"优点|缺点|特点|材料|做法|配料|食材|标题|内容|主题|作者|来源|简介|要求|条件|目的|问题|答案|答复|回复|方案|如下|"
    r"包括|包含|分别是|即|是|说|道|认为|觉得|以下|首先|其次|最后|另外|总之|因此|所以|第.{1,2}|早餐|午餐|晚餐|"
    r"note|tips?|example|e\.g|p\.?s|time|date|price|address|phone|e-?mail|name|url|link|https?|summary|answer|result|"
    r"(?:周|星期)[一二三四五六日天])\s?[\d一二三四五六七八九十]*"
)


@dataclass(frozen=True)
class _Head:
    """The beginning of a message: its speaker, whether a time is beside it, its text, and the form of the line."""

    name: str
    timed: bool
    text: str
    style: str
    colon: bool

    @property
    def form(self) -> "_Form":
        """How the line is written: whether a time is beside the speaker, its style, and whether it has text."""
        return self.timed, self.style, bool(self.text)


def read_transcript(text: str, speakers: Speakers = USUAL) -> list[dict[str, str]]:
    """The messages of a text whose messages begin with their speakers.

    A line without a speaker continues the message above it, as does an indented one. Times are left out.

    Raises:
        InputError: the first line names no known speaker, or a later one an unknown speaker; the message names it.
    """
    lines, heads, roles = _heads_of(text, speakers)
    speakers.check_one_bot(head.name for head, role in zip(heads, roles, strict=True) if head and role)
    known = {head.form for head, role in zip(heads, roles, strict=True) if head and role}
    messages: list[tuple[str, list[str]]] = []  # roles and lines; joined once, because each time takes quadratic time
    for number, (line, head, role) in enumerate(zip(lines, heads, roles, strict=True)):
        if head and role:
            messages.append((role, [head.text]))
        elif head and (not messages or _is_speaker(head, known)):
            indent = "; indent the line if it continues the message above" if messages else ""
            raise InputError(f"{head.name} is no known speaker, as 用户： and 机器人： are{indent}; {REMEDY}")
        elif known and (notice := _STARTS.match(line)) and all(timed for timed, _, _ in known):
            messages.append((TOOL, [line[notice.end() :]]))  # nobody said it
        elif not messages and _ALONE.fullmatch(line):
            continue
        elif not messages:
            raise InputError(
                f"{line[:20]!r} does not say who speaks; a chat begins with 用户： or 机器人：, as in 用户：你好"
            )
        elif not (messages[-1][1][-1] and _ALONE.fullmatch(line) and (number + 1 == len(lines) or heads[number + 1])):
            messages[-1][1].append(line.strip())
    return _without_times([{"role": role, "content": "\n".join(filter(None, said))} for role, said in messages])


def read_lines(text: str, speakers: Speakers = USUAL) -> list[dict[str, str]]:
    """The messages of a text with speakers; without them the lines alternate, and the user begins."""
    lines, heads, roles = _heads_of(text, speakers)
    if not lines:
        raise InputError("the chat is empty; it must be lines of text, the user's first, or JSON")
    if any(roles):
        return read_transcript(text, speakers)
    named = [head.name for head in heads if head and head.colon and not _NO_SPEAKER.fullmatch(head.name.lower())]
    timed = [head.name for head in heads if head and head.timed and not head.colon]
    # A speaker in each line, or speakers with times above the lines that they said.
    said = [head for line, head in zip(lines, heads, strict=True) if not _ALONE.fullmatch(line)]
    unknown = named if len(named) == len(said) else timed if any(said[:1]) and 1 < len(timed) < len(said) else []
    if len({*unknown}) > 1:
        raise InputError(
            f"unknown speakers {', '.join([*dict.fromkeys(unknown)][:4])}; write 用户： or 机器人： before each message"
        )
    return _without_times(alternating(line.strip() for line in lines))


def has_speakers(text: str, speakers: Speakers = USUAL, *, several: bool = False) -> bool:
    """Whether a line of a text begins with a known speaker; ``several``: the first does, and both sides speak."""
    _, _, roles = _heads_of(text, speakers)
    return bool(roles and roles[0] and {USER, ASSISTANT} <= {*roles}) if several else any(roles)


def _heads_of(text: str, speakers: Speakers) -> tuple[list[str], list[_Head | None], list[str | None]]:
    """The lines that are not empty, the beginnings of messages among them, and the roles of the known speakers."""
    text = _END_TAGS.sub("", _TAGS.sub(r"\n\1: ", text))
    for heading, speaker in _COPIED:
        text = heading.sub(speaker + "\n", text)
    lines = [line for line in re.split(r"\r\n?|\n", text) if line.strip()]
    heads = [_head(line, speakers) for line in lines]
    names = {without_number(head.name).lower() for head in heads if head}
    roles = [_role(head, names, speakers) if head else None for head in heads]
    # An indented line continues the one above, unless it names a known speaker.
    heads = [
        None if role is None and (line[0].isspace() or _ALONE.fullmatch(line)) else head
        for line, head, role in zip(lines, heads, roles, strict=True)
    ]
    return lines, heads, roles


def split_chats(lines: Iterable[_Block], speakers: Speakers = USUAL) -> Iterator[_Block]:
    """The chats of numbered lines, each with its first number, its text, and where its last line ends.

    An empty line ends a chat, unless the next block begins without a speaker, or with the bot's answer to the user's
    last message in a chat that the user began. A time, a rule or a title above a block does not count. Where every chat
    would have a single message, empty lines stand between the messages of one chat.
    """

    @lru_cache(8)  # more than are compared with one another, so that no long block is read again for each after it
    def sides(text: str) -> tuple[_Head | None, str | None, set[_Form], list[str]]:  # of the first line, and of all
        lines = [*zip(*_heads_of(text, speakers), strict=True)]
        lines = [(line, head, role) for line, head, role in lines if role or not _ALONE.fullmatch(line)]
        _, head, role = lines[0] if lines else ("", None, None)
        return head, role, {h.form for _, h, known in lines if h and known}, [known for _, _, known in lines if known]

    def continues(above: list[str], text: str) -> bool:
        (_, began, known, _), (head, role, _, _) = sides(above[0]), sides(text)
        return bool(began) and not role and not (head and _is_speaker(head, known))

    def answers(above: list[str], text: str) -> bool:
        return sides(above[0])[1] == USER == sides(above[-1])[3][-1] and sides(text)[1] == ASSISTANT

    parts = _joined(_split(lines), continues)
    single: list[_Block] = []  # the blocks up to the first one of several messages
    for block in parts:
        single.append(block)
        if len(sides(block[1])[3]) > 1:
            yield from _joined(chain(single, parts), answers)
            return
    yield from _joined(single, lambda above, text: True)


def _joined(parts: Iterable[_Block], joins: Callable[[list[str], str], bool]) -> Iterator[_Block]:
    """The blocks, each with those after it that ``joins`` says belong to it."""
    texts: list[str] = []
    first = end = 0
    for number, text, text_end in parts:
        if texts and not joins(texts, text):
            yield first, "\n".join(texts), end
            texts = []
        first, end = first if texts else number, text_end
        texts.append(text)
    if texts:
        yield first, "\n".join(texts), end


def _split(lines: Iterable[_Block]) -> Iterator[_Block]:
    for has_text, group in groupby(lines, lambda line: bool(line[1].strip())):
        if has_text:
            block = [*group]
            yield block[0][0], "\n".join(text.rstrip() for _, text, _ in block), block[-1][2]


def _head(line: str, speakers: Speakers) -> _Head | None:
    """The beginning of a message with a speaker, or with what stands where one would; None for another line."""
    mark = _MARK.match(line)
    rest = line[mark.end() :].rstrip() if mark else line.strip()
    style = re.sub(r"[^*#>\-•1]", "e", re.sub(r"\d+", "1", re.sub(r"\s", "", mark[0]))) if mark else ""
    for number, pattern in enumerate(_HEADS):
        match = pattern.match(rest)
        if not match:
            continue
        parts = match.groupdict()
        name = re.sub(r"[(（][^()（）]*[)）]$", "", parts["name"].strip(" *\t")).strip(" *\t(（")
        text = (parts["text"] or "").strip().removeprefix("**").strip()
        timed, colon = "time" in parts, bool(parts.get("colon"))
        # Beside a time, only a colon, a known name or the end of the line shows that this is a speaker.
        is_known = colon or speakers.role_of(without_number(name), in_text=True) is not None
        if not name or (timed and not is_known and (text or " " in name or len(name) > 12)):
            continue
        return _Head(name, timed, text, style + ("" if number < 4 else str(number)), colon)
    return None


def _role(head: _Head, names: set[str], speakers: Speakers) -> str | None:
    """The role of a speaker; None if the name is unknown, or a lone letter that may be part of the text.

    "u" and "b" count with a number only, and "a" only where there is "q" as well.
    """
    name, plain = head.name.lower(), without_number(head.name).lower()
    if name in ("u", "b") or (plain in ("q", "a") and not {"q", "a"} <= names):
        return None
    return speakers.role_of(name, in_text=True) or speakers.role_of(plain, in_text=True)


def _is_speaker(head: _Head, known: Collection[_Form]) -> bool:
    """Whether an unknown name is a speaker: it is written as the known ones are, and is no usual word of a text."""
    if not known or _NO_SPEAKER.fullmatch(head.name.lower()):
        return False
    if head.timed:
        return head.colon or any(timed for timed, _, _ in known)
    alike = any(not timed and style == head.style for timed, style, _ in known)
    return alike and (bool(head.text) or any(not has_text for _, _, has_text in known))


def _without_times(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """The messages without a time that each of them begins or ends with."""
    spoken = [message for message in messages if message["role"] not in (SYSTEM, TOOL)]
    for time in (_STARTS, _ENDS):
        if len(spoken) > 1 and all(time.search(message["content"]) for message in spoken):
            for message in spoken:
                message["content"] = time.sub("", message["content"], count=1)
    return messages
