"""Reads the Markdown pages of the repository."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def text_of(page):
    return page.read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), flags=re.DOTALL)


def sections(page):
    """Each section with its heading, without blocks of code, whose comments look like headings."""
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return re.split(r"^(?=#+ )", text, flags=re.MULTILINE)[1:]


def anchors(page):
    """The anchors that GitHub generates for the headings of a page, in order."""
    titles = [section.splitlines()[0].lstrip("#").strip() for section in sections(page)]
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def plain_cell(cell):
    return cell.replace("`", "").replace("**", "")


def tables(text):
    """The header and rows of each Markdown table, without cell formatting."""
    for match in re.finditer(r"^\|.+\|\n\|[-:| ]+\|\n(?:\|.*\|\n?)*", text, flags=re.MULTILINE):
        header, _, *rows = (
            [plain_cell(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in match[0].strip().splitlines()
        )
        yield header, rows


def by_path(pages):
    return {"argvalues": pages, "ids": [page.relative_to(ROOT).as_posix() for page in pages]}
