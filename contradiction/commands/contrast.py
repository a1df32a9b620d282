"""The command ``cdconv contrast``."""

from pathlib import Path
from typing import Annotated

import typer

from contradiction.commands.terminal import progress, show


def contrast(
    model: Annotated[str, typer.Argument(help="A model folder or Hub id.")],
    wrong: Annotated[bool, typer.Option("--wrong", help="Also print each reply that is judged wrongly.")] = False,
    json: Annotated[Path | None, typer.Option(help="Also write the counts to this file.")] = None,
) -> None:
    """Tries a detector on pairs of replies to one chat, of which one contradicts: what it understands, by phenomenon.

    They were written for this and are no chats of CDConv. "Both right": the one is called a contradiction, the other is
    not. "In order": the one is more probably a contradiction than the other, wherever the decision is drawn.
    """
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.contrast import count, fingerprint, judge_pairs, read_pairs
    from contradiction.evaluation.evaluate import model_name
    from contradiction.io.files import check_file, write_json
    from contradiction.reports.contrast_table import contrast_table

    if json:
        check_file(json)
    detector, pairs = ContradictionDetector.from_pretrained(model), read_pairs()
    with progress(f"asking {detector.name}") as bar:
        task = bar.add_task("", total=2 * len(pairs))
        answers = judge_pairs(detector, pairs, on_batch=lambda done: bar.advance(task, done))
    counts = count(answers)
    if json:
        write_json(json, {"name": model_name(detector.name), "pairs": fingerprint(), "contrast": counts})
    if wrong:
        for answer in answers:
            for reply, verdict, meant in answer.replies():
                if verdict.is_contradiction != meant:
                    said = " / ".join((*answer.pair.turns, reply))
                    typer.echo(f"{answer.pair.phenomenon}: {said} -> {verdict.label}")
    show(contrast_table(detector.name, counts))
