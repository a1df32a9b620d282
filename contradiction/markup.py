"""The words of a text: without the markup, the stickers and the invisible characters around them.

This is for judging only: a verdict points into the text as it was written. All rules stand here. What they leave out
says nothing that a reply could contradict. What a careful reader could take for content stays: ``3 < 5``, ``a<b``,
``List<str>``, 《书名》, [我], (2021), 1.5 米, ``1. 5米``, URLs, code between backticks, a note in brackets.
"""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex


@dataclass(frozen=True)
class Extract:
    """A text that was made from another one by leaving parts out.

    Attributes:
        text: the text.
        places: the place of each character in the whole text.
    """

    text: str
    places: Sequence[int]

    @classmethod
    def whole(cls, text: str) -> "Extract":
        """All of a text."""
        return cls(text, range(len(text)))

    def __getitem__(self, part: slice) -> "Extract":
        return Extract(self.text[part], self.places[part])

    def sub(self, pattern: Any, gap: str | Callable[[Any], str | None] = "") -> "Extract":
        """Replaces what a compiled pattern finds.

        Each match becomes its group ``kept`` if it has one, otherwise ``gap``. ``gap`` may be a function of the match;
        where it returns None, the match stays.
        """
        texts: list[str] = []
        places: list[int] = []
        done = 0

        def keep(start: int, end: int) -> None:
            texts.append(self.text[start:end])
            places.extend(self.places[start:end])

        for match in pattern.finditer(self.text):
            kept = match.start("kept") if "kept" in pattern.groupindex else -1
            new = gap if isinstance(gap, str) else gap(match)
            if new is None:
                continue
            keep(done, match.start())
            if kept >= 0:
                keep(kept, match.end("kept"))
            else:
                texts.append(new)
                places.extend([self.places[match.start()]] * len(new))
            done = match.end()
        if not done:
            return self
        keep(done, len(self.text))
        return Extract("".join(texts), places)

    def strip(self) -> "Extract":
        """Without spaces and line breaks at its ends."""
        start = len(self.text) - len(self.text.lstrip())
        return self[start : max(start, len(self.text.rstrip()))]

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """The start and end in the whole text of a part that is not empty."""
        return self.places[start], self.places[end - 1] + 1


SHORT = 500  # characters; longer texts are rare, and would fill the memory


def _compile(*patterns: str) -> Any:
    return regex.compile("|".join(patterns), regex.VERSION1 | regex.MULTILINE | regex.IGNORECASE)


# No rule finds anything in such a text.
_PLAIN = _compile(r"\A(?!(?:[一二三四五六七八九十]{1,3}|[a-h])、)[\p{Han}a-z，。！？、；…～]*+\z")

# Control and format characters, unassigned and private ones, variation selectors, marks on Chinese characters, and the
# colours of a terminal.
_INVISIBLE = _compile(
    r"\x1B\[[0-9;]{0,20}[a-z]",
    r"[[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Me}\p{Variation_Selector}\p{Default_Ignorable_Code_Point}]--[\t\n\v\f\r]]",
    r"(?<=\p{Han})\p{M}+",
)
_ENTITY = _compile(r"&(?:amp;){0,3}(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});|&nbsp")
_ESCAPED = _compile(r"\\[nrt](?<![a-z:\\]..)(?![a-z])")  # a line break in a text that was escaped twice
# A digit in a box begins an item or decorates the end of a text; between words, or before a measure, it is a number.
_KEYCAP = _compile(
    r"(?<![^\s\p{P}])[0-9#*]\uFE0F?\u20E3(?![只个条岁点号年月日块元次天])",
    r"[0-9#*]\uFE0F?\u20E3(?![\p{L}\p{N}])",
)

# Code loses its marks only. While the rules run, ``_MASK`` stands for each of its characters.
_CODE = _compile(
    r"^[ \t]*(```|~~~)[\w+-]{0,20}[ \t]*\n(?P<kept>(?s:.*?))\n?[ \t]*(?:\1|\z)", r"`(?P<kept>[^`\n]{1,200})`"
)
_MASK = "\ue000"

_ATTRIBUTE = (
    r"""\s+(?:[\w:@.-]{1,40}\s*=\s*(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>]++)|open|hidden|checked|disabled|controls)"""
)
_TAG = _compile(rf"<(?P<closes>/?)(?P<name>[a-z][\w:.-]{{0,30}}+)(?:{_ATTRIBUTE}){{0,20}}\s*/?>")
_EMPTY_ELEMENTS = {"br", "hr", "img", "input", "wbr", "break", "bos", "eos", "eod", "pad", "unk", "end_of_turn"}
_BLOCKS = set(
    "address article blockquote br center dd details div dl dt figure footer h1 h2 h3 h4 h5 h6 header hr li main ol p "
    "pre section summary table tbody td th thead tr ul".split()
)
_HIDDEN = _compile(
    r"<!--(?s:.*?)(?:-->|\z)",
    r"<!doctype[^<>]{0,200}>|<\?xml[^<>]{0,200}>",
    r"<(style|script|emotion|mood|expression|action)\b[^<>]{0,200}>(?s:.{0,5000}?)</\1\s*>",
    r"<sup>\[?\d{1,3}\]?</sup>",
    r"<!\[CDATA\[(?P<kept>(?s:.*?))\]\]>",
)
_TOKENS = _compile(
    r"<\|(?:im_start|start_header_id|start)\|>\s*(?:system|user|assistant|model|bot)?(?:<\|end_header_id\|>)?\s*",
    r"<start_of_turn>\s*(?:user|model)?\s*",
    r"<[|｜][^<>|｜\n]{1,40}[|｜]>",
    r"<0x[0-9a-f]{2}>",
    r"<</?SYS>>",
    r"\[/?(?:INST|SYS|CLS|SEP|PAD|MASK|UNK|BOS|EOS|gMASK|THINK)\](?:sop)?",
)
_IMAGE = _compile(
    r"(?:!\[[^\[\]\n]{0,200}|\[(?:\^?\d{1,3}|来源|出处|链接|source|link))\]\([^()\s]{0,500}\)"
)  # and the link of a source
_LINK = _compile(r"\[(?P<kept>[^\[\]\n]{0,200})\]\(https?://[^)\s]{0,500}\)")
_RULER = _compile(r"^(?=[ \t|:]*+[-*_=])[-*_=|:+ \t]{3,}+$")  # also the line below the head of a table
_TABLE_ROW = _compile(r"^[ \t]*+\|(?P<kept>[^\n]*)\|[ \t]*$")
_BORDER = _compile(r"(?<=[ \t])\|(?=[ \t])")
# The marks of quotes, headings, tasks and items, and the numbers of items where no other number follows.
_NUMBER = r"(?:\d{1,2}[.、．)）]|[(（]\d{1,2}[)）]|[①-⑳][.、]?)"
_ITEM = _compile(
    r"^[ \t]{0,8}(?:>(?![ \t]*\d)[ \t]*+|[-*+•·▪◦‣●○■◆★☆➤▶][ \t]+(?:\[[ x]?\][ \t]+)?|\#{1,6}[ \t]+"
    rf"|{_NUMBER}[ \t]*+(?![\d\s]|$)(?:(?<=[ \t])|(?=[\p{{L}}\p{{Ps}}\p{{Pi}}*<]))(?![年月日号点岁个只])"
    r"|[a-h][.、．)）][ \t]*+(?=\p{Han})|[一二三四五六七八九十]{1,3}、[ \t]*+(?![一二三四五六七八九十两百千万几\s]|$))+"
)
# The name of a speaker before the text.
_SPEAKER = _compile(
    r"\A[^\w\s]{0,4}(?:(?:客服|助手|管家)?小(?!时|结|说|区|心|贴|计|孩|朋|学|技|知|提|建|吃|费|伙|事|菜)\p{Han}{1,2}(?:同学|助手)?"
    r"|(?![我你])\p{Han}{0,4}(?:机器人|助手|助理|客服|精灵)|豆包|元宝|文心一言|通义千问|答|回答|回复|用户|user"
    r"|ai|bot|chatbot|assistant|chatgpt|deepseek|kimi|qwen|claude|gemini|siri)[\]】*\s]{0,4}[:：][* \t]*"
)

# What a stage direction tells of.
_GESTURES = (
    r"笑|叹气|叹了|叹息|哭|流泪|落泪|流汗|点(?:了点|点)?头|摇(?:了摇|摇)?头|歪(?:着|了|了歪)?头|低(?:着|下)?头"
    r"|抬起?头|挠(?:了挠|挠)?头|眨|脸红|害羞|挥(?:了挥|挥)?手|招手|摆手|拍手|拍了拍|鼓掌|鞠躬|捂|抱住|抱抱|拥抱"
    r"|摸摸|摸了摸|摸头|看着|看向|望着|望向|盯着|凝视|注视|皱(?:着|了皱|起)?眉|挑眉|耸(?:了耸|耸)?肩|沉默|停顿"
    r"|轻声|小声|低声|悄声|沉思|思考|想了想|清(?:了清)?嗓|咳|伸出手|伸手|转身|走到|走向|走近|坐在|坐下|站起"
    r"|靠近|凑近|拉住|握住|牵起|跺脚|嘟嘴|撅嘴|撒娇|吐舌|瞪|翻白眼|打哈欠|伸懒腰|深呼吸|比心|欢呼|跳起来|递给"
    r"|递上|语气|表情|动作|神情|旁白|心想|内心|os[:：]"
    r"|(?:开心|高兴|温柔|认真|害怕|生气|委屈|无奈|惊讶|兴奋|得意|难过|好奇|严肃|调皮"
    r"|俏皮|轻轻|缓缓|慢慢|默默|静静)(?:地|的样子|(?=[)）】*＊_]))|\b(?:smil"
    r"|laugh|sigh|nod|grin|wav(?:es|ing)|blush|chuckl|giggl|shrug|wink|hugs?\b|bows?\b)"
)
# A whole text that is starred and has several clauses is emphasised.
_IN_STARS = (
    r"(?!\A[*＊_][^*＊_\n]{0,60}[，,。！？!?我][^*＊_\n]{0,60}[*＊_]\z)"
    rf"(?:(?<!\*)\*(?![*\s])|＊|(?<!_)_(?!_))(?=[^*＊_\n]{{0,60}}?(?:{_GESTURES}))[^*＊_\n]{{1,60}}[*＊_](?![*＊_])"
)
_IN_BRACKETS = (
    rf"(?:[(（](?![我他她它])(?=[^()（）\n]{{0,6}}?(?:{_GESTURES}))[^()（）\n]{{1,16}}[)）]"
    rf"|【(?:[微大偷苦坏]笑|(?:动作|表情|神情|语气|旁白)[:：][^【】\n]{{1,20}}|{_GESTURES})】)"
)
# A direction stands for itself: at an edge of a sentence, not within it. Starred text before or after a sentence is an
# action, whatever it tells.
_DIRECTION = _compile(
    rf"(?=[*＊_(（【])(?:(?<![^\s\p{{P}}])(?:{_IN_STARS}|{_IN_BRACKETS})"
    rf"|(?:{_IN_STARS}|{_IN_BRACKETS})(?![^\s\p{{P}}]))",
    r"[*＊](?<=^.)(?![*＊\s])[^*＊\n:：]{3,60}(?<!\s)[*＊](?=[ \t]+[^\s*＊:：])",
    r"[*＊](?<=[。！？!?…][ \t]{0,3}.)(?![*＊\s])[^*＊\n:：]{3,60}(?<!\s)[*＊][ \t]*$",
)
# Stickers that are known also within a sentence.
_FACES = (
    "强|弱|吐|衰|心|色|囧|汗|晕|酷|嘘|困|赞|泪|怒|哼|耶|哇|福|微笑|撇嘴|发呆|得意|流泪|害羞|闭嘴|大哭|尴尬"
    "|发怒|调皮|呲牙|惊讶|难过|抓狂|偷笑|愉快|白眼|傲慢|惊恐|憨笑|悠闲|咒骂|疑问|骷髅|敲打|再见|擦汗|抠鼻|鼓掌"
    "|坏笑|右哼哼|左哼哼|鄙视|委屈|快哭了|阴险|亲亲|可怜|笑脸|生病|脸红|破涕为笑|恐惧|失望|无语|嘿哈|捂脸|奸笑"
    "|机智|皱眉|吃瓜|加油|天啊|社会社会|旺柴|好的|打脸|翻白眼|让我看看|叹气|苦涩|裂开|嘴唇|爱心|心碎|拥抱|握手"
    "|胜利|抱拳|勾引|拳头|玫瑰|凋谢|蛋糕|炸弹|便便|月亮|太阳|庆祝|礼物|红包|烟花|爆竹|猪头|转圈|合十|哈哈|嘻嘻"
    "|爱你|允悲|二哈|笑哭|笑cry|doge|ok|图片|表情|动画表情|表情包|语音|视频|文件|位置|链接|emoji|image|sticker"
)
_STICKER_NAME = (
    r"(?!我|你|您|他|她|它|这|那|名字|姓名|城市|地名|地点|时间|日期|年龄)\p{Han}[\p{Han}a-z]{1,5}(?:_\w{1,10})?"
)
_STICKER = _compile(
    rf"\[(?:(?<![a-z_\])].)|(?=\p{{Han}}))(?:{_FACES})\](?!\()",
    rf"\[(?<![\p{{L}}\p{{N}}_\]].){_STICKER_NAME}\](?!\()",
    rf"\[{_STICKER_NAME}\](?![\p{{L}}\p{{N}}(])",
    r"\[(?!name|city|date|time|number)(?:(?<![\w\]].)[a-z]{2,15}\](?!\()|(?<![a-z0-9_\]].)[a-z]{2,15}\](?![\w(]))",
    r":(?<![\w:].)[a-z][a-z0-9_+-]{1,30}:(?![\w:])",
    rf"/(?<![\w/.:].)(?:{_FACES})(?![\w/])",
    r"[(（][toqx]?[^()（）\p{L}\p{N}\n]{1,10}[toqx]?[)）]",
    r"(?=[:;=^TQ>-])(?<![a-z0-9])(?:[:;=]-?[()dp]|\^[_.o-]{0,2}\^|T_+T|QAQ|>_+<|=_+=|-_+-)(?!\w)",
)
_CITATION = _compile(
    r"(?<![a-z_)\]])(?:\[\^?\d{1,3}(?:-\d{1,3})?\]|\[\[\d{1,3}\]\]"
    r"|\[(?:citation|ref|source|来源|引用)[:： ]?\d{1,3}\])+(?!\()",
    r"【\d{1,3}(?:(?::\d{1,3})?†[^【】\n]{0,80})?】",
    r"[¹²³⁰⁴-⁹]+(?<![a-z0-9.][¹²³⁰⁴-⁹]+)",
)
_EMPHASIS = _compile(
    r"\*\*(?:(?<![0-9a-z]\*\*)|(?![0-9a-z]))|__|`+",
    r"[*＊](?<![*\w].)(?![*＊\s])(?P<kept>[^*＊\n]{1,200}?)(?<!\s)[*＊](?![*\w])",
    r"[*＊](?<=\p{Han}.)(?![*＊\s])(?P<kept>[^*＊\n]{2,200}?)(?<!\s)[*＊](?=\p{Han}|\p{P}|$)",
    r"_(?<!\w_)(?![_\s])(?P<kept>[^_\n]{1,200})(?<!\s)_(?!\w)",
    r"==(?<![\w=]==)(?P<kept>[^=\n]{1,200})==(?![\w=])",
    r"~~(?<![\w~]~~)(?P<kept>[^~\n]{1,200})~~(?![\w~])",
)
_EMOJI = _compile(
    r"[[\p{Extended_Pictographic}\p{Regional_Indicator}\p{Emoji_Modifier}\u2600-\u27BF\u2B00-\u2BFF\uFFFC\uFFFD\u2800]"
    r"--[©®™ℹ↔-↪⤴⤵〰]]+"
)
_QUOTED = _compile(
    r"""\A(?:["“](?P<kept>[^"“”]+)["”]|'(?P<kept>[^']+)'|「(?P<kept>[^「」]+)」|『(?P<kept>[^『』]+)』)\z"""
)
_SPACES = _compile(r"(?<=[ \t])[ \t]++", r"(?<![ \t])[ \t]++(?=[,.!?;:，。！？；：])")

# What each rule finds -> what stands for it: a space separates words, a line break sentences.
_RULES: tuple[tuple[Any, str], ...] = (
    (_IMAGE, " "), (_LINK, ""), (_RULER, ""), (_TABLE_ROW, ""), (_BORDER, "\n"), (_ITEM, ""), (_SPEAKER, ""),
    (_DIRECTION, " "), (_STICKER, " "), (_CITATION, ""), (_EMPHASIS, ""), (_EMOJI, " "), (_QUOTED, ""),
)  # fmt: skip


def plain(text: str) -> str:
    """The words of a text, see :func:`words`."""
    if _PLAIN.match(text):
        return text
    return _plain(text) if len(text) <= SHORT else _plain_long(text)


@lru_cache(10_000)  # the windows of a chat share messages
def _plain(text: str) -> str:
    return words(text).text


_plain_long = lru_cache(16)(_plain.__wrapped__)


def words(text: str) -> Extract:
    """The words of a text and their places in it; empty if it is only markup. A text without markup stays as it is."""
    whole = Extract.whole(text)
    clean = whole.sub(_KEYCAP, " ").sub(_INVISIBLE).sub(_ENTITY, _character).sub(_INVISIBLE).sub(_ESCAPED, "\n")
    masked = _CODE.sub(_mask, clean.text)
    extract = Extract.whole(masked).sub(_CODE)
    for _ in range(3):  # what a rule leaves out may have hidden something from an earlier one
        before = extract.text
        extract = extract.sub(_HIDDEN).sub(_TOKENS).sub(_TAG, _gap_of_tag(before))
        for pattern, gap in _RULES:
            extract = extract.sub(pattern, gap)
        if extract.text != before or before != text:
            extract = extract.sub(_SPACES).strip()
        if extract.text == before:
            break
    pairs = zip(extract.text, extract.places, strict=True)
    characters = (clean.text[place] if found == _MASK else found for found, place in pairs)
    return Extract("".join(characters), [clean.places[place] for place in extract.places])


def _character(match: Any) -> str:
    """The character of an entity, which may have been escaped several times."""
    return html.unescape(regex.sub(r"&(?:amp;)+", "&", match[0]) if match[0].count(";") > 1 else match[0])


def _mask(match: Any) -> str:
    start, end = match.span("kept")
    whole = match[0]
    return whole[: start - match.start()] + _MASK * (end - start) + whole[end - match.start() :]


def _gap_of_tag(text: str) -> Callable[[Any], str | None]:
    """What stands for a tag; None for what is none, as in ``List<str>``."""
    closed = {match["name"].lower() for match in _TAG.finditer(text) if match["closes"]}

    def gap(match: Any) -> str | None:
        name, before = match["name"].lower(), match.string[match.start() - 1 : match.start()]
        inside = before.isascii() and (
            before.isalpha() or (before.isdigit() and match.string[match.end() : match.end() + 1].isalnum())
        )
        if inside and not match["closes"] and name not in closed and name not in _EMPTY_ELEMENTS:
            return None
        return "\n" if name in _BLOCKS else ""

    return gap
