"""The data set: the rows of the released file, how they are split, and the builder that `datasets` runs."""

import hashlib
import json
import random

import pytest
from helpers.data_repo import FILES, NAMES, TRIGGERS, UTTERANCES, write

import contradiction.labels
import evaluate_metric.evaluate_metric
from contradiction import cdconv
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source")

LINES = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
PLAIN = next(line for line in LINES if line["label"] == 0)


@pytest.fixture(scope="module")
def any_rows(raw_file):
    return cdconv.read_rows(raw_file)


def digest(rows):
    return hashlib.sha256(",".join(str(row["id"]) for row in rows).encode()).hexdigest()[:16]


# --- the rows -------------------------------------------------------------------------------------------------------


def test_rows_match_the_raw_lines():
    trigger = {raw: name for name, raw in TRIGGERS.items()}
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


def test_official_split_is_the_authors(any_rows, raw_file):
    """Compared with the authors' own steps, on the lines of the file and with the global generator."""
    lines = raw_file.read_text(encoding="utf-8").splitlines()
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


def test_both_splits_are_pinned(release):
    rows = cdconv.read_rows(release)
    grouped = cdconv.grouped_split(rows)
    sides = cdconv.official_split(rows) | {f"{side}-grouped": part for side, part in grouped.items()}
    assert {name: (len(part), digest(part)) for name, part in sides.items()} == {
        "train": (6996, "93a48998d6f47cc6"),
        "validation": (2332, "8cf34ed659d46c3a"),
        "test": (2332, "92a48fea4d58137d"),
        "train-grouped": (6995, "10e68e662b6c4f57"),
        "validation-grouped": (2332, "e5c635b98b9529ed"),
        "test-grouped": (2333, "6e191f696c77319a"),
    }


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


def test_grouped_split_puts_every_row_on_one_side_in_the_order_of_the_file(any_rows):
    any_grouped = cdconv.grouped_split(any_rows)
    assert list(any_grouped) == ["train", "validation", "test"]
    first = [{row["u1"] for row in side} for side in any_grouped.values()]
    assert len(set.union(*first)) == sum(map(len, first))  # no first utterance is in two parts
    ids = [[row["id"] for row in side] for side in any_grouped.values()]
    assert all(side == sorted(side) for side in ids)
    assert sorted(number for side in ids for number in side) == list(range(1, len(any_rows) + 1))


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
    expected = {task: tuple(names) for task, names in NAMES.items()}
    library, metric = contradiction.labels.LABELS, evaluate_metric.evaluate_metric.LABELS
    assert cdconv.LABELS == expected
    assert contradiction.labels.BOTS == cdconv.BOTS
    assert {task: library[task] for task in expected} == expected
    assert dict(metric) == dict(library)
