"""Whether a detector keeps its verdict on a reply in another form: with markup, emoji, in other characters.

    python -m experiments.text_forms models/e5-small-long-replies

Every form is applied to the same last replies of the official validation split. Shown are the replies whose verdict,
contradiction or none, changes, and those that are no longer checked, in percent.
"""

import random
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from opencc import OpenCC

from contradiction import ContradictionDetector, cli
from contradiction.commands.common import DATA, DataOption
from contradiction.conversation import Messages, alternating
from contradiction.data.splits import load_split
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import Table, percent
from contradiction.verdict import Verdict

REPLIES, SEED = 500, 0
FORMS: dict[str, Callable[[str], str]] = {
    **{f"traditional, {name}": OpenCC(name).convert for name in ("s2t", "s2hk", "s2twp")},
    "a line break after punctuation": lambda text: re.sub(r"(?<=[，。！？])(?=.)", "\n", text),
    "spaces around Latin words and numbers": lambda text: re.sub(
        r"(?<=[一-鿿])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z])(?=[一-鿿])", " ", text
    ),
    "half-width punctuation": lambda text: text.translate(str.maketrans("，！？：；", ",!?:;")),
    "a full stop at the end": lambda text: text if text[-1] in "。！？…~～" else f"{text}。",
}


def main(
    model: Annotated[str, typer.Argument(help="A model folder or Hub id.")],
    precision: Annotated[str, typer.Option(help="fp32 is exact.")] = "fp32",
    data: DataOption = DATA,
) -> None:
    """Counts the replies whose verdict changes if they are written in another form."""
    detector = ContradictionDetector.from_pretrained(model, precision=precision)
    rows = random.Random(SEED).sample(load_split(data, "4-class", "validation").to_list(), REPLIES)

    def judge(form: Callable[[str], str]) -> list[Verdict]:
        chats: list[Messages] = []
        for row in rows:
            *earlier, reply = (row[column] for column in CONVERSATION)
            chats.append(alternating([*earlier, form(reply)]))
        return detector.batch(chats)

    usual = judge(str)
    lines = []
    wrapped = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "cases" / "wrapped.py"))
    for name, form in (wrapped["FORMS"] | wrapped["MORE_FORMS"] | FORMS).items():
        verdicts = judge(form)
        changed = sum(one.contradiction != other.contradiction for one, other in zip(verdicts, usual, strict=True))
        unchecked = sum(not verdict.checked for verdict in verdicts)
        lines.append((name, percent(changed / len(rows)), percent(unchecked / len(rows))))
        print(*lines[-1], sep="\t", flush=True)
    print(f"{len(rows)} replies")
    print(Table("", ("written with", "changed, %", "unchecked, %"), lines).markdown())


if __name__ == "__main__":
    cli.main(cli.script(main))
