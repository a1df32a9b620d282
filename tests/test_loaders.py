"""Batches: their order, and their distribution over processes."""

import pytest
import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.errors import InputError
from contradiction.training.loaders import EpochSampler, Layout, allowed_labels

LENGTHS = [40 + row % 7 for row in range(200)]


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    sampler = EpochSampler(LENGTHS, 16, seed=1)
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
        generator = torch.Generator().manual_seed(10_007 + epoch)
        assert orders[-1] == list(LengthGroupedSampler(16, lengths=LENGTHS, generator=generator))
        assert sorted(orders[-1]) == list(range(200))
    assert orders[0] != orders[1] != orders[2]


def test_the_rows_of_a_group_follow_each_other():
    groups = [row // 4 for row in range(200)]
    sampler = EpochSampler(LENGTHS, 16, seed=1, groups=groups)
    order = list(sampler)
    assert sorted(order) == list(range(200))
    assert [groups[row] for row in order[::4]] == [groups[row] for row in order[3::4]]
    assert order != list(range(200))


def test_the_labels_that_a_row_may_have():
    names = ("entailment", "neutral", "contradiction")
    assert allowed_labels(1, None, names) == [False, True, False]
    assert allowed_labels(-100, False, names) == [True, True, False]
    assert allowed_labels(-100, True, names) == [False, False, True]
    assert allowed_labels(-100, None, names) == [False, False, False]


@pytest.mark.parametrize(("rows", "processes"), [(288, 1), (288, 2), (281, 5), (3, 2)])
def test_rows_of_a_step_have_equal_weight_however_it_is_distributed(rows, processes):
    layouts = [Layout(rows, 40, processes, process) for process in range(processes)]
    read = 40 // processes  # accelerate fills up the last batch, so that all processes read equally many rows
    real = 0
    for step in range(layouts[0].steps):
        own = [layout.own_rows(step, read) for layout in layouts]
        real += sum(own)
        # Accelerate averages over the processes: each step is the mean over its rows.
        weight = sum(count * layout.scale(step) for count, layout in zip(own, layouts, strict=True)) / processes
        assert weight == pytest.approx(1)
    assert real == rows


def test_a_batch_that_does_not_divide_by_the_processes_is_rejected():
    with pytest.raises(InputError, match="batch_size 32.*3 processes"):
        Layout(100, 32, processes=3)


def test_a_group_split_between_batches_or_processes_is_rejected():
    groups = [row // 4 for row in range(60)]
    Layout(60, 32, processes=4).check_groups(groups)
    with pytest.raises(InputError, match="batch_size 30 gives each process 30 rows.* take a multiple of 4$"):
        Layout(60, 30).check_groups(groups)
    with pytest.raises(InputError, match="batch_size 36 gives each process 18 rows.* take a multiple of 8$"):
        Layout(60, 36, processes=2).check_groups(groups)
    with pytest.raises(InputError, match="same number of replies; .*3 to 4$"):
        Layout(59, 32).check_groups(groups[:-1])
