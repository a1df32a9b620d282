"""Fits a detector without fine-tuning its encoder: minutes where fine-tuning takes an hour."""

import time
from pathlib import Path

from contradiction.data.splits import of_bot
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import VIEWS
from contradiction.io.files import locked, new_folder
from contradiction.methods.kernel import KernelClassifier, KernelRegression
from contradiction.training import leakage, record, run_folder
from contradiction.training.accelerators import check_precision, processes
from contradiction.training.augmentation import training_rows
from contradiction.training.recipe import Recipe


def train(
    recipe: Recipe,
    *,
    data: str | Path,
    out: str | Path,
    resume: bool = False,
) -> Path:
    """Embeds the training rows, fits kernel ridge regression to them, and writes both as a model folder.

    Args:
        recipe: a recipe of the method ``kernel``.
        data: the data repo, a folder or Hub id.
        out: the model folder to write.
        resume: accept a finished run of the same recipe and data; there is no state of an unfinished one.

    Returns:
        ``out``.

    Raises:
        InputError: ``out`` exists or has no name, another process works there, or the encoder was trained on CDConv.
    """
    out = Path(out)
    check_precision(recipe)
    sharing = processes()  # only the main process works
    rows = run_folder.read(recipe, data)
    request, conditions = run_folder.request(recipe, data, rows), run_folder.conditions(recipe)
    with locked(out, sharing.is_main_process):
        sharing.wait_for_everyone()
        if run_folder.finished(out, request, resume):
            return out
        sharing.wait_for_everyone()
        if sharing.is_main_process:
            began = time.perf_counter()
            chosen = list(training_rows(rows["train"], recipe).rows)
            columns = VIEWS[recipe.data.view]
            embed = Embedder(str(recipe.model.backbone), recipe.precision)
            embed(row[column] for column in columns for row in chosen)  # all texts in one progress bar
            model = KernelRegression(columns, embed).fit(chosen, [row["label"] for row in chosen])
            fitted = KernelClassifier(model, embed, recipe.labels, out.name)
            minutes = (time.perf_counter() - began) / 60
            origin = {
                "base_model": record.base_model_of_recipe(recipe),
                "ancestors": leakage.ancestors(leakage.sources(recipe)),
            }
            with new_folder(out) as folder:
                fitted.save(folder)
                record.write_fitted(
                    folder, request=request, result={**conditions, **origin}, minutes=minutes,
                    parameters=embed.parameters, device=embed.device,
                )  # fmt: skip
                run_folder.complete(folder, of_bot(rows["validation"], recipe.data.bot))
        sharing.wait_for_everyone()
    return out
