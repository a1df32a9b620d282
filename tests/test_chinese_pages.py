"""The Chinese pages are as up to date as the English ones: the same sections, code, figures and links."""

import re

import pytest
from helpers.pages import ROOT, anchors, sections, text_of

DOCS = ROOT / "docs"
PAIRS = [(ROOT / "README.md", ROOT / "README.zh.md")]
PAIRS += [(DOCS / page.name, page) for page in sorted((DOCS / "zh").glob("*.md"))]
ENGLISH = {chinese: english for english, chinese in PAIRS}
# A number, but neither one inside a name such as F1 nor the number of labels, which Chinese writes as a word.
NUMBER = re.compile(r"(?<![A-Za-z\d.])\d+(?:[.,]\d+)*(?!-class)")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)]+)\)")

both = pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=[chinese.stem for _, chinese in PAIRS])


@both
def test_the_pages_have_the_same_sections_and_link_to_each_other(english, chinese):
    levels = [[re.match("#+", section)[0] for section in sections(page)] for page in (english, chinese)]
    assert levels[0] == levels[1]
    assert (english, None) in places(chinese, sections(chinese)[0])
    assert chinese in {(english.parent / link).resolve() for link in LINK.findall(sections(english)[0])}


@both
def test_the_code_is_the_same_but_for_comments(english, chinese):
    pages = ([without_comments(block) for block in fenced(page)] for page in (english, chinese))
    for one, other in zip(*pages, strict=True):
        assert one == other


def fenced(page):
    return re.findall(r"^```.*?^```$", text_of(page), flags=re.DOTALL | re.MULTILINE)


def without_comments(block):
    return re.sub(r"(?:^| +)# .*\n", "\n", block, flags=re.MULTILINE)


@both
def test_each_section_has_the_same_figures_and_names_of_code(english, chinese):
    for one, other in pairs_of_sections(english, chinese):
        title = other.splitlines()[0]
        rows, rows_in_chinese = table_rows(one), table_rows(other)
        assert len(rows) == len(rows_in_chinese), title
        for row, row_in_chinese in zip(rows, rows_in_chinese, strict=True):
            assert figures_and_code(row) == figures_and_code(row_in_chinese), row_in_chinese
        prose, prose_in_chinese = ("\n".join(prose_lines(text)) for text in (one, other))
        # A sentence may say a figure again, so only the different ones are compared.
        assert set(figures_and_code(prose)) == set(figures_and_code(prose_in_chinese)), title


def pairs_of_sections(english, chinese):
    return zip(sections(english), sections(chinese), strict=True)


def table_rows(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def prose_lines(text):
    return [line for line in text.splitlines() if not line.startswith(("|", "<"))]


def figures_and_code(text):
    text = LINK.sub("]", text)
    return sorted([*CODE.findall(text), *NUMBER.findall(CODE.sub("", text))])


@both
def test_each_section_links_to_the_same_places(english, chinese):
    for one, other in pairs_of_sections(english, chinese):
        assert places(english, one) == places(chinese, other), other.splitlines()[0]


def places(page, text):
    """What the text links to. A Chinese page counts as the English one, with the number of the heading as the place."""
    found = set()
    for link in LINK.findall(text):
        path, _, place = link.partition("#")
        target = path if "://" in link else (page.parent / path).resolve() if path else page
        if target in ENGLISH or target in ENGLISH.values():
            place = anchors(target).index(place) if place else None
            target = ENGLISH.get(target, target)
        found.add((target, place))
    return found
