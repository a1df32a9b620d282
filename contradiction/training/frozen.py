"""Fits a detector whose encoder stays as it is: minutes where fine-tuning takes an hour."""

import time
from pathlib import Path

from contradiction import record, seen
from contradiction.backbones import origin
from contradiction.classifiers.frozen import FrozenClassifier
from contradiction.data.splits import of_bot
from contradiction.embeddings import Embedder
from contradiction.files import new_folder
from contradiction.kernel import KernelModel
from contradiction.locking import locked
from contradiction.recipes import Recipe
from contradiction.training import requests
from contradiction.training.accelerators import check_precision, processes
from contradiction.training.completion import complete
from contradiction.training.sampling import training_rows
from contradiction.views import VIEWS


def train(
    recipe: Recipe,
    *,
    data: str | Path,
    out: str | Path,
    resume: bool = False,
) -> Path:
    """Embeds the training rows, fits the kernel machine to them, and writes both as a model folder.

    Args:
        recipe: one with ``frozen``.
        data: the data repo, a folder or Hub id.
        out: the model folder to write.
        resume: leave a finished run of the same recipe and data as it is; an unfinished one leaves nothing behind.

    Returns:
        ``out``.

    Raises:
        InputError: ``out`` is taken or no name, another process is at it, or the encoder knows labels of these rows.
    """
    out = Path(out)
    check_precision(recipe)
    sharing = processes()  # of which the main one alone works
    rows = requests.read(recipe, data)
    asked, stated = requests.request(recipe, data, rows), requests.conditions(recipe)
    with locked(out, sharing.is_main_process):
        sharing.wait_for_everyone()
        if requests.finished(out, asked, resume):
            return out
        sharing.wait_for_everyone()
        if sharing.is_main_process:
            before = time.perf_counter()
            chosen = list(training_rows(rows["train"], recipe).rows)
            columns = VIEWS[recipe.view]
            embed = Embedder(str(recipe.backbone), recipe.precision)
            embed(row[column] for column in columns for row in chosen)  # in one bar
            model = KernelModel(columns, embed).fit(chosen, [row["label"] for row in chosen])
            fitted = FrozenClassifier(model, embed, recipe.labels, out.name)
            minutes = (time.perf_counter() - before) / 60
            made_of = {"base_model": origin.of_recipe(recipe), "ancestors": seen.ancestors(seen.sources(recipe))}
            with new_folder(out) as folder:
                fitted.save(folder)
                record.write_fitted(
                    folder, request=asked, result={**stated, **made_of}, minutes=minutes, parameters=embed.parameters,
                    device=embed.device,
                )  # fmt: skip
                complete(folder, out.name, of_bot(rows["validation"], recipe.bot))
        sharing.wait_for_everyone()
    return out
