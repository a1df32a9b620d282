"""Mixed views: each pass reads each row once, in a view drawn anew; ``test_resume`` resumes a run of them."""

import pytest
import torch
from transformers.trainer_pt_utils import LengthGroupedSampler

from contradiction.errors import InputError
from contradiction.training import record
from contradiction.training.loaders import EpochSampler
from contradiction.training.loop import train
from contradiction.training.recipe import Recipe

ROWS = 200
LENGTHS = [[40 + row % 7 for row in range(ROWS)], [10 + row % 5 for row in range(ROWS)]]


def passes(sampler, epochs=3):
    found = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


def test_a_pass_reads_each_row_once_in_either_view():
    for numbers in passes(EpochSampler(LENGTHS, 16, seed=1)):
        assert sorted(number % ROWS for number in numbers) == list(range(ROWS))
        assert 60 < sum(number < ROWS for number in numbers) < 140


def test_the_views_are_drawn_anew_in_each_pass_and_alike_for_a_seed():
    first, again, other = (passes(EpochSampler(LENGTHS, 16, seed)) for seed in (1, 1, 2))
    assert first == again != other
    drawn = [{number for number in numbers if number < ROWS} for numbers in first]
    assert drawn[0] != drawn[1] != drawn[2]


def test_rows_of_a_step_are_of_like_length_in_the_views_that_were_drawn():
    lengths = LENGTHS[0] + LENGTHS[1]
    [numbers] = passes(EpochSampler(LENGTHS, 16, seed=1), epochs=1)
    steps = [[lengths[number] for number in numbers[i : i + 16]] for i in range(0, ROWS, 16)]
    # The sampler sorts a few steps at a time, and one in each holds the border; without it all 13 would.
    assert sum(max(step) - min(step) > 10 for step in steps) <= 5


def test_one_view_alone_keeps_the_order_that_it_had():
    for epoch, numbers in enumerate(passes(EpochSampler(LENGTHS[:1], 16, seed=1))):
        generator = torch.Generator().manual_seed(10_007 + epoch)
        assert numbers == list(LengthGroupedSampler(16, lengths=LENGTHS[0], generator=generator))


def recipe(**values):
    scratch = {"hidden_size": 32, "layers": 1, "heads": 2, "vocabulary": 600}
    return Recipe(name="mixed", view="flatten", config="4-class", scratch=scratch, **{"epochs": 2, **values})


def test_mixing_changes_what_is_learned_and_the_detector_reads_its_own_view(sample_repo, tmp_path):
    alone = train(recipe(), data=sample_repo, out=tmp_path / "alone")
    mixed = train(recipe(mixed_views=["sentence-pair", "role-confusion"]), data=sample_repo, out=tmp_path / "mixed")
    again = train(recipe(mixed_views=["sentence-pair", "role-confusion"]), data=sample_repo, out=tmp_path / "again")
    weights = [(folder / "model.safetensors").read_bytes() for folder in (alone, mixed, again)]
    assert weights[0] != weights[1] == weights[2]
    assert '"cdconv_view": "flatten"' in (mixed / "config.json").read_text(encoding="utf-8")
    assert record.read(mixed)["request"]["recipe"]["mixed_views"] == ["sentence-pair", "role-confusion"]


@pytest.mark.parametrize(
    ("view", "views", "said"),
    [
        ("flatten", ["flatten"], "beside the view 'flatten' allowed are sentence-pair"),
        ("flatten", ["layered"], "beside the view 'flatten' allowed are sentence-pair"),
        ("flatten", ["nli"], "allowed are sentence-pair"),
        ("hierarchical", ["flatten"], "beside the view 'hierarchical' allowed are none"),
    ],
)
def test_a_view_that_cannot_be_mixed_in_is_refused(tmp_path, view, views, said):
    file = tmp_path / "mixed.toml"
    file.write_text(f'view = "{view}"\nconfig = "4-class"\nbackbone = "x"\nmixed_views = {views}', encoding="utf-8")
    with pytest.raises(InputError, match=said):
        Recipe.load(file)
