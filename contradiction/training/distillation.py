"""Distillation: what trained detectors say of the training rows, for a student to learn beside the labels."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from accelerate.utils import tqdm
from scipy.special import softmax

from contradiction.errors import InputError
from contradiction.inputs.views import VIEWS
from contradiction.methods.loading import load_classifier
from contradiction.methods.ngrams import linear_model
from contradiction.methods.softmax import SoftmaxClassifier
from contradiction.training import cross_fitting, record

if TYPE_CHECKING:
    from datasets import Dataset

    from contradiction.training.recipe import Recipe


def check_teachers(recipe: "Recipe", data: str) -> None:
    """Makes sure that the teachers have not read what the student is kept from.

    Args:
        recipe: names the teachers.
        data: the fingerprint of the student's rows, as its request has it.

    Raises:
        InputError: a teacher was trained on other rows: on the official split, it has
            read rows that are for validation and test on the grouped one. What else a teacher was made from, and
            the backbone, are looked at by ``contradiction.training.leakage.check_sources``.
    """
    for name in recipe.distillation.teachers:
        read = record.of_model(name).get("request", {}).get("data", data)
        if read != data:
            raise InputError(f"teacher {name}: trained on other rows than the student's; train it on the same data")


def soft_labels(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    """The mean of the teachers' probabilities, shape (rows, labels), by the student's class ids.

    A mean of several is more often right than each, and one student can come near it at the cost of one (Hinton et al.,
    2015, *Distilling the knowledge in a neural network*, section 2). Each teacher reads its own view, at the
    precision of the recipe and without its decision rule. Models of n-grams have the weight
    ``ngram_teacher_weight`` in it; they are fitted here, without the rows that they are asked of.

    Raises:
        InputError: a teacher is not there, or has other labels than the student.
    """
    columns, weight = VIEWS[recipe.data.view], recipe.distillation.ngram_teacher_weight
    parts = []
    if recipe.distillation.teachers:
        parts.append((1 - weight) * _of_detectors(recipe, rows))
    if weight:
        parts.append(weight * cross_fitting.soft_labels(recipe, rows, "ngrams", lambda: linear_model(columns)))
    return np.sum(parts, axis=0)


def _of_detectors(recipe: "Recipe", rows: "Dataset") -> np.ndarray:
    found = []
    for name in recipe.distillation.teachers:
        teacher = load_classifier(name, precision=recipe.precision)
        if not isinstance(teacher, SoftmaxClassifier):
            raise InputError(f"teacher {name}: hierarchical; a teacher gives each label a probability")
        if set(teacher.labels) != set(recipe.labels):
            raise InputError(
                f"teacher {name}: predicts {', '.join(teacher.labels)}; the student learns {', '.join(recipe.labels)}"
            )
        with tqdm(total=len(rows), desc=f"asking {Path(name).name}", unit="row", dynamic_ncols=True) as bar:
            logits = teacher.logits(list(rows), on_batch=bar.update)
        order = [teacher.labels.index(label) for label in recipe.labels]
        found.append(softmax(logits, axis=1)[:, order])
    return np.mean(found, axis=0)
