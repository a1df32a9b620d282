"""Linear n-gram models as teachers, which judge only rows that they were not trained on."""

import numpy as np
import pytest
from helpers.runs import TINY
from numpy.testing import assert_allclose

from contradiction.errors import InputError
from contradiction.methods.ngrams import LinearModel
from contradiction.training import distillation
from contradiction.training.augmentation import transfer_rows
from contradiction.training.recipe import Recipe


def recipe(**values):
    student = {"name": "student", "view": "flatten", "config": "4-class", "scratch": TINY, "epochs": 1}
    return Recipe.of(**student | {"ngram_teacher_weight": 1.0} | values)


def rows_with(rows, **columns):
    """Rows with these columns. The other columns are those of the first row."""
    count = len(next(iter(columns.values())))
    made = rows.select([0] * count).to_dict() | {"id": list(range(count))} | columns
    return type(rows).from_dict(made, features=rows.features)


def test_the_speaker_of_an_utterance_matters():
    texts = [{"u2": "是", "b2": "不"}, {"u2": "不", "b2": "是"}] * 4
    model = LinearModel(("u2", "b2")).fit(texts, [0, 1] * 4)
    assert model.predict(texts[:2]).tolist() == [0, 1]


def test_a_column_that_is_blank_in_all_rows_is_skipped():
    texts = [{"b1": " ", "b2": "不"}, {"b1": "", "b2": "是"}] * 4
    blank, alone = (LinearModel(columns).fit(texts, [0, 1] * 4) for columns in (("b1", "b2"), ("b2",)))
    assert_allclose(blank.predict_proba(texts), alone.predict_proba(texts))
    with pytest.raises(InputError, match="all 8 rows are blank in b1"):
        LinearModel(("b1",)).fit(texts, [0, 1] * 4)


def test_a_row_is_judged_by_models_not_trained_on_it(rows):
    # The labels are random, so that a model can only memorise them. A model that was trained on the rows knows
    # them all.
    generator = np.random.default_rng(0)
    texts = ["".join(map(chr, generator.integers(0x4E00, 0x9000, 12))) for _ in range(160)]
    labels = generator.integers(0, 2, 160).tolist()
    drawn = rows_with(rows, b2=texts, u1=texts, label=labels)
    known = LinearModel(("b2",)).fit(list(drawn), labels)
    assert np.mean(known.predict(list(drawn)) == labels) == 1
    for config in ("4-class", "4-class-grouped"):
        soft = distillation.ngram_probabilities(recipe(config=config, view="reply-only"), drawn)
        assert np.mean(soft.argmax(axis=1) == labels) < 0.65
        assert_allclose(soft.sum(axis=1), 1)
        assert_allclose(soft[:, 2:], 0)  # the labels that no row has


def record_fits(recipe, rows):
    """For each judged row, the row and the rows that its model was fitted to."""
    looked = []

    class Looked:
        def __init__(self, columns):
            assert columns == ("u1", "b1", "u2", "b2")

        def fit(self, rows, labels):
            self.rows = rows
            self.classes_ = np.unique(labels)
            return self

        def predict_proba(self, judged_rows):
            looked.extend((row, self.rows) for row in judged_rows)
            return np.full((len(judged_rows), len(self.classes_)), 1 / len(self.classes_))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distillation, "LinearModel", Looked)
        distillation.ngram_probabilities(recipe, rows)
    return looked


def test_a_made_row_is_judged_by_models_trained_on_neither_of_its_sources(rows):
    made = transfer_rows(rows, 1)
    both = made.from_dict({name: [*rows[name], *made[name]] for name in rows.features})
    read = record_fits(recipe(transfer_per_row=1), both)
    assert len(read) == len(rows) + len(made)
    kinds, sources = set(), {}
    for row in rows.to_list():
        sources.setdefault(distillation._turn(row), row["id"])
    for row, others in read:
        kinds.add(row["label"] is None)
        fitted = {other["id"] for other in others}
        assert row["id"] not in fitted
        if row["label"] is None:
            assert sources[distillation._turn(row)] not in fitted
        assert len(others) > len(rows) / 2
    assert kinds == {True, False}


@pytest.mark.parametrize("grouped", [False, True])
def test_in_a_grouped_split_no_model_is_trained_on_the_context_of_its_rows(rows, grouped):
    judged = rows_with(rows, u1=[f"第{number // 4}句" for number in range(160)], label=[0, 1] * 80)
    looked = record_fits(recipe(config="4-class-grouped" if grouped else "4-class"), judged)
    knew = [row["u1"] in {other["u1"] for other in others} for row, others in looked]
    assert len(knew) == 160
    assert any(knew) != grouped


@pytest.mark.parametrize("missing", [None, -1])
def test_rows_without_a_label_are_no_class_and_get_probabilities(rows, missing):
    texts = [f"我养了{number}只猫" for number in range(40)]
    drawn = rows_with(rows, b2=texts, u1=texts, label=[number % 2 for number in range(39)] + [missing])
    soft = distillation.ngram_probabilities(recipe(view="reply-only"), drawn)
    assert_allclose(soft.sum(axis=1), 1)
    assert (soft[:, 2:] == 0).all()


@pytest.mark.parametrize(
    ("labels", "message"), [([0, 1] * 2, "cannot be split into 8 folds"), ([0] * 30, "have only one label")]
)
def test_too_few_rows_raise_one_line(rows, labels, message):
    with pytest.raises(InputError, match=message):
        distillation.soft_labels(recipe(), rows_with(rows, label=labels))


def test_the_weight_of_the_n_gram_teacher(rows, quick_model):
    few = rows.select(range(64))
    detectors = {"teachers": [str(quick_model)], "ngram_teacher_weight": 0.0}
    alone, lexical = distillation.soft_labels(recipe(**detectors), few), distillation.soft_labels(recipe(), few)
    assert np.abs(alone - lexical).max() > 0.01
    both = distillation.soft_labels(recipe(**detectors | {"ngram_teacher_weight": 0.25}), few)
    assert_allclose(both, 0.75 * alone + 0.25 * lexical)
