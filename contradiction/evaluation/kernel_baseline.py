"""A baseline that fine-tunes no encoder: the kernel machine on embeddings and n-grams, or on n-grams alone.

What a fine-tuned detector is worth, it is worth above this.
"""

from pathlib import Path
from typing import Any

import numpy as np

from contradiction.data.splits import fingerprint, load_split, name_of
from contradiction.evaluation.baselines import check_config
from contradiction.evaluation.results import evaluation
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.labels import LABELS, task_of
from contradiction.methods import calibration
from contradiction.methods.kernel_regression import KernelRegression
from contradiction.methods.loading import name_with_digest
from contradiction.training import leakage

NAME = "kernel ridge"
WORDS = "n-grams"  # what it is fitted to without an encoder
VALIDATION = "validation"


def run(data: str | Path, config: str, embedder: Embedder | None = None, split: str = "test") -> dict[str, Any]:
    """Fits and scores the kernel machine on all four utterances; see ``contradiction.methods.kernel_regression``.

    Its decision rule is chosen on validation, as that of a trained detector is. Deterministic.

    Args:
        data: the data repo.
        config: for instance ``4-class``.
        embedder: an encoder that has not been trained on these rows; by default there is none, and n-grams are all
            that is compared.
        split: the split to score.

    Raises:
        InputError: no such config of conversations, or the encoder knows the labels.

    Returns:
        An evaluation, as ``contradiction.evaluation.results`` keeps it, with probabilities.
    """
    check_config(config)
    if embedder:
        leakage.check_embedder(embedder.name, config, name_of(data))
    names = LABELS[task_of(config)]
    rows = {each: load_split(data, config, each) for each in ("train", VALIDATION, split)}
    if embedder:
        embedder(row[column] for each in rows.values() for column in CONVERSATION for row in each)  # in one bar
    model = KernelRegression(CONVERSATION, embedder).fit(list(rows["train"]), rows["train"]["label"])
    logits = {each: np.log(model.predict_proba(list(rows[each]))) for each in (VALIDATION, split)}
    references = np.array(rows[VALIDATION]["label"])
    rule = calibration.fit(logits[VALIDATION], references, names)
    probabilities = {each: rule.calibrate(found, names) for each, found in logits.items()}
    if len(names) == 2:
        rule = calibration.with_curve(rule, probabilities[VALIDATION][:, 1], references == 1)
    return evaluation(
        name=f"{NAME}, {embedder.short_name if embedder else WORDS}",
        kind="baseline",
        config=config,
        split=split,
        data=fingerprint(rows[split]),
        ids=list(rows[split]["id"]),
        references=list(rows[split]["label"]),
        predictions=rule.decide(probabilities[split], names).tolist(),
        plain=logits[split].argmax(axis=1).tolist(),
        view="flatten",
        embedder=name_with_digest(embedder.name) if embedder else None,
        rule=rule.without_curve(),
        probabilities=probabilities[split].round(8).tolist(),
    )
