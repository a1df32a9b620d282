"""The data set: the rows of the released file, how they are split, and the builder that `datasets` runs."""

import hashlib
import json
import random
from collections import Counter

import pytest
from helpers.data_repo import FILES, TRIGGERS, UTTERANCES, write
from hypothesis import given, settings
from hypothesis import strategies as st

import contradiction.labels
import evaluate_metric.evaluate_metric
from contradiction import cdconv
from contradiction.data.statistics import overlap
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source")

CONTEXT = ("u1", "b1", "u2")
LINES = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
PLAIN = next(line for line in LINES if line["label"] == 0)
HISTORY = next(line for line in LINES if line["label"] == 3)


@pytest.fixture(scope="module")
def rows(release):
    return cdconv.read_rows(release)


@pytest.fixture(scope="module")
def grouped(rows):
    return cdconv.grouped_split(rows)


@pytest.fixture(scope="module", params=["sample", pytest.param("release", marks=pytest.mark.real_data)])
def any_rows(request, sample_rows):
    return sample_rows if request.param == "sample" else request.getfixturevalue("rows")


@pytest.fixture(scope="module")
def any_grouped(request, any_rows, sample_rows):
    return cdconv.grouped_split(sample_rows) if any_rows is sample_rows else request.getfixturevalue("grouped")


def digest(rows):
    return hashlib.sha256(",".join(str(row["id"]) for row in rows).encode()).hexdigest()[:16]


# --- what is in the released file -----------------------------------------------------------------------------------


def test_release_has_11660_distinct_rows_and_no_empty_utterance(rows):
    assert len(rows) == 11_660
    assert len({tuple(row[column] for column in UTTERANCES) + (row["label"], row["trigger"]) for row in rows}) == 11_660
    lengths = [len(row[column].strip()) for row in rows for column in UTTERANCES]
    assert min(lengths) > 0
    assert max(lengths) == 72
    assert Counter(row["batch"] for row in rows) == {1: 1823, 2: 2904, 3: 2172, 4: 2036, 5: 2725}


def test_release_has_5197_first_utterances_and_most_rows_share_theirs(rows):
    count = Counter(row["u1"] for row in rows)
    assert len(count) == 5_197
    assert sum(count[row["u1"]] > 1 for row in rows) == 10_163
    assert max(Counter(tuple(row[column] for column in CONTEXT) for row in rows).values()) == 4


def test_rows_match_the_raw_lines(tmp_path):
    trigger = dict(zip(TRIGGERS.values(), (
        "short", "inquiring-bot", "inquiring-user", "inquiring-user-m", "paraphrasing",
        "perturb-synonym", "perturb-antonym", "perturb-negative",
    ), strict=True))  # fmt: skip
    batch = {name: number for number, name in enumerate(FILES, start=1)}
    assert cdconv.read_rows(SAMPLE) == [
        {
            "id": number,
            **{column: line[column] for column in UTTERANCES},
            "label": line["label"],
            "persona": line.get("persona"),
            "trigger": trigger[line["method"]],
            "bot": line["model"],
            "batch": batch[line["file"]],
        }
        for number, line in enumerate(LINES, start=1)
    ]


def test_windows_line_ends_and_a_missing_final_newline_change_nothing(tmp_path):
    raw = SAMPLE.read_bytes()
    windows, cut = tmp_path / "windows", tmp_path / "cut"
    windows.write_bytes(raw.replace(b"\n", b"\r\n"))
    cut.write_bytes(raw.rstrip(b"\n"))
    assert cdconv.read_rows(windows) == cdconv.read_rows(cut) == cdconv.read_rows(SAMPLE)


# --- the splits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "size", "first", "last", "sequence"),
    [
        ("train", 6996, [7198, 7189, 9593], [11228, 4764, 4244], "93a48998d6f47cc6"),
        ("validation", 2332, [8387, 3220, 3175], [11450, 4124, 8904], "8cf34ed659d46c3a"),
        ("test", 2332, [6397, 1160, 9604], [8165, 4843, 8656], "92a48fea4d58137d"),
    ],
)
def test_official_split_is_pinned(side, size, first, last, sequence, rows):
    part = cdconv.official_split(rows)[side]
    ids = [row["id"] for row in part]
    assert (len(ids), ids[:3], ids[-3:], digest(part)) == (size, first, last, sequence)


def test_official_split_is_the_authors(any_rows, sample_rows, request):
    """Compared with the authors' own steps, on the lines of the file and with the global generator."""
    path = SAMPLE if any_rows is sample_rows else request.getfixturevalue("release")
    lines = path.read_text(encoding="utf-8").splitlines()
    state = random.getstate()
    random.seed(13)
    random.shuffle(lines)
    random.setstate(state)
    size = int(0.2 * len(lines))
    expected = {"validation": lines[:size], "test": lines[size : 2 * size], "train": lines[2 * size :]}
    splits = cdconv.official_split(any_rows)
    for side, chosen in expected.items():
        raw = [json.loads(line) for line in chosen]
        for ours_row, theirs_row in zip(splits[side], raw, strict=True):
            assert all(ours_row[column] == theirs_row[column] for column in (*UTTERANCES, "label"))


@given(st.integers(5, 400))
@settings(deadline=None, max_examples=50, database=None)
def test_official_split_puts_every_row_on_one_side(size):
    sides = cdconv.official_split(range(size))
    assert sorted(row for side in sides.values() for row in side) == list(range(size))
    assert len(sides["validation"]) == len(sides["test"]) == size // 5


@pytest.mark.parametrize(
    ("side", "size", "sequence"),
    [
        ("train", 6995, "10e68e662b6c4f57"),
        ("validation", 2332, "e5c635b98b9529ed"),
        ("test", 2333, "6e191f696c77319a"),
    ],
)
def test_grouped_split_is_pinned(side, size, sequence, grouped):
    part = grouped[side]
    assert (len(part), digest(part)) == (size, sequence)


def test_grouped_split_of_made_up_rows_is_pinned():
    """Even without the release, this notices a change of seed, fold or library that moves rows between splits."""
    rows = [
        {"id": n, "u1": str(n * n % 97), "label": n % 4, "persona": n % 3 if n % 4 == 3 else None} for n in range(400)
    ]
    sides = cdconv.grouped_split(rows)
    assert {side: digest(part) for side, part in sides.items()} == {
        "train": "ece672281829565e",
        "validation": "cb5aa78945fc9c74",
        "test": "da7e0c4dade8ba94",
    }


def test_grouped_split_puts_every_row_on_one_side_in_the_order_of_the_file(any_rows, any_grouped):
    assert list(any_grouped) == ["train", "validation", "test"]
    first = [{row["u1"] for row in side} for side in any_grouped.values()]
    assert len(set.union(*first)) == sum(map(len, first))  # no first utterance is in two parts
    ids = [[row["id"] for row in side] for side in any_grouped.values()]
    assert all(side == sorted(side) for side in ids)
    assert sorted(number for side in ids for number in side) == list(range(1, len(any_rows) + 1))


def test_grouped_split_is_stratified_within_a_percentage_point(rows, grouped):
    for side, chosen in grouped.items():
        assert abs(len(chosen) / len(rows) - (0.6 if side == "train" else 0.2)) < 0.01
        for column in ("label", "persona"):
            whole, part = (Counter(row[column] for row in some) for some in (rows, chosen))
            for value, count in whole.items():
                assert abs(part[value] / len(chosen) - count / len(rows)) < 0.01, (side, column, value)


def test_official_split_leaks_and_the_grouped_one_does_not(rows, grouped):
    official = cdconv.official_split(rows)
    assert round(100 * overlap(official, CONTEXT), 1) == 63.7
    assert round(100 * overlap(official, ("u1",)), 1) == 68.2
    for side in ("validation", "test"):
        sides = {"train": grouped["train"], "test": grouped[side]}
        assert overlap(sides, CONTEXT) == overlap(sides, ("u1",)) == 0


def test_grouped_split_rejects_too_few_first_utterances(sample_rows):
    with pytest.raises(cdconv.InvalidSourceError, match=f"{len(sample_rows)} rows .*4 distinct u1 "):
        cdconv.grouped_split([row | {"u1": str(row["id"] % 4)} for row in sample_rows])


# --- the builder ----------------------------------------------------------------------------------------------------


def build(cache, config, source=SAMPLE):
    builder = cdconv.CDConv(cache_dir=str(cache), config_name=config, source=str(source) if source else None)
    builder.download_and_prepare()
    return builder


def test_builder_on_the_release_checks_it_and_gives_its_rows(release, tmp_path, monkeypatch):
    monkeypatch.setenv("CDCONV_FILE", str(release))
    built = build(tmp_path, "persona", source=None).as_dataset()
    assert {side: len(rows) for side, rows in built.items()} == {"train": 1859, "validation": 608, "test": 589}


def test_builder_loads_new_rows_from_a_changed_source(tmp_path, monkeypatch):
    path = write(tmp_path / "raw.txt", LINES)
    monkeypatch.setenv("CDCONV_FILE", str(path))
    default = cdconv.CDConv(cache_dir=str(tmp_path)).cache_dir
    first = build(tmp_path / "cache", "4-class", path)
    assert build(tmp_path / "cache", "4-class", path).cache_dir == first.cache_dir
    write(path, [line | {"b2": "换了一句话"} for line in LINES])
    second = build(tmp_path / "cache", "4-class", path)
    assert second.cache_dir != first.cache_dir
    assert set(second.as_dataset("test")["b2"]) == {"换了一句话"}
    assert "换了一句话" not in first.as_dataset("test")["b2"]
    assert cdconv.CDConv(cache_dir=str(tmp_path)).cache_dir != default


def test_builder_shows_the_error_of_a_bad_row_unchanged(tmp_path):
    path = write(tmp_path / "raw.txt", [*LINES[:6], PLAIN | {"label": 9}])
    with pytest.raises(cdconv.InvalidSourceError, match=r"raw\.txt:7: .*'label' is 9; .*0, 1, 2, 3"):
        build(tmp_path / "cache", "4-class", path)


def test_the_three_label_tables_are_equal():
    """The library and the metric may know more tasks than the data set has. Those they share are the same."""
    expected = {
        "2-class": ("non-contradiction", "contradiction"),
        "4-class": ("non-contradiction", "intra-sentence", "role-confusion", "history"),
        "persona": ("unrelated", "attributes", "opinions", "experiences"),
    }
    library, metric = contradiction.labels.LABELS, evaluate_metric.evaluate_metric.LABELS
    assert cdconv.LABELS == expected
    assert contradiction.labels.BOTS == cdconv.BOTS
    assert {task: library[task] for task in expected} == expected
    assert dict(metric) == dict(library)


def test_the_library_knows_every_config_by_name_and_task():
    configs = {config.name: config.task for config in cdconv.CDConv.BUILDER_CONFIGS}
    assert list(configs) == ["2-class", "4-class", "persona", "2-class-grouped", "4-class-grouped", "persona-grouped"]
    assert set(configs) <= set(contradiction.labels.CONFIGS)
    assert all(contradiction.labels.task_of(config) == task for config, task in configs.items())
