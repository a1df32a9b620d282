"""The data set: its raw file, whose bad rows are named; its rows and splits; and the builder that `datasets` runs."""

import hashlib
import json
import random
import re

import pytest
from helpers.chats import objects
from helpers.data_repo import FILES, NAMES, TRIGGERS, UTTERANCES, encode, write
from hypothesis import given, settings
from hypothesis import strategies as st

import contradiction.labels
import evaluate_metric.evaluate_metric
from contradiction import cdconv
from contradiction.data import build
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source")

LINES = objects(SAMPLE)
PLAIN = next(line for line in LINES if line["label"] == 0)


@pytest.fixture(scope="module")
def any_rows(raw_file):
    return cdconv.read_rows(raw_file)


def digest(rows):
    return hashlib.sha256(",".join(str(row["id"]) for row in rows).encode()).hexdigest()[:16]


# --- the rows -------------------------------------------------------------------------------------------------------


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


def prepared(cache, config, source=SAMPLE):
    builder = cdconv.CDConv(cache_dir=str(cache), config_name=config, source=str(source) if source else None)
    builder.download_and_prepare()
    return builder


def test_builder_on_the_release_checks_it_and_gives_its_rows(release, tmp_path, monkeypatch):
    monkeypatch.setenv("CDCONV_FILE", str(release))
    built = prepared(tmp_path, "persona", source=None).as_dataset()
    assert {side: len(rows) for side, rows in built.items()} == {"train": 1859, "validation": 608, "test": 589}


def test_builder_loads_new_rows_from_a_changed_source(tmp_path, monkeypatch):
    path = write(tmp_path / "raw.txt", LINES)
    monkeypatch.setenv("CDCONV_FILE", str(path))
    default = cdconv.CDConv(cache_dir=str(tmp_path)).cache_dir
    first = prepared(tmp_path / "cache", "4-class", path)
    assert prepared(tmp_path / "cache", "4-class", path).cache_dir == first.cache_dir
    write(path, [line | {"b2": "换了一句话"} for line in LINES])
    second = prepared(tmp_path / "cache", "4-class", path)
    assert second.cache_dir != first.cache_dir
    assert set(second.as_dataset("test")["b2"]) == {"换了一句话"}
    assert "换了一句话" not in first.as_dataset("test")["b2"]
    assert cdconv.CDConv(cache_dir=str(tmp_path)).cache_dir != default


def test_builder_shows_the_error_of_a_bad_row_unchanged(tmp_path):
    path = write(tmp_path / "raw.txt", [*LINES[:6], PLAIN | {"label": 9}])
    with pytest.raises(cdconv.InvalidSourceError, match=r"raw\.txt:7: .*'label' is 9; .*0, 1, 2, 3"):
        prepared(tmp_path / "cache", "4-class", path)


def test_the_three_label_tables_are_equal():
    """The library and the metric may know more tasks than the data set has. Those they share are the same."""
    expected = {task: tuple(names) for task, names in NAMES.items()}
    library, metric = contradiction.labels.LABELS, evaluate_metric.evaluate_metric.LABELS
    assert cdconv.LABELS == expected
    assert contradiction.labels.BOTS == cdconv.BOTS
    assert {task: library[task] for task in expected} == expected
    assert dict(metric) == dict(library)


# --- raw files ------------------------------------------------------------------------------------------------------

HISTORY = next(line for line in LINES if line["label"] == 3)

# The allowed values of a raw row, stated independently of the code.
BOTS = ["eva", "plato"]
METHODS = [*TRIGGERS.values()]
KEYS = ["file", "model", "method", *UTTERANCES, "label"]


def is_valid(line):
    """Checks the raw format independently of the code."""

    def text(value):
        return (
            isinstance(value, str) and value.strip() != "" and not any(0xD800 <= ord(char) < 0xE000 for char in value)
        )

    keys = {*KEYS, "persona"} if line.get("label") == 3 else set(KEYS)
    return (
        line.keys() == keys
        and type(line["label"]) is int
        and 0 <= line["label"] <= 3
        and all(line[key] in values for key, values in (("file", FILES), ("model", BOTS), ("method", METHODS)))
        and all(text(line[key]) for key in UTTERANCES)
        and ("persona" not in keys or (type(line["persona"]) is int and 0 <= line["persona"] <= 3))
    )


# --- validation --------------------

BAD = [
    b'{"file": "1st", ',
    encode(PLAIN).replace("你".encode(), "你".encode("gbk")),
    b"[" * 100_000,
    {key: PLAIN[key] for key in KEYS if key != "b1"},
    PLAIN | {"b3": "好"},
    json.dumps(PLAIN | {"b2": "好\ud83d"}).encode(),
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_the_error_for_the_first_bad_row_is_one_line_with_its_place(line, tmp_path):
    path = write(tmp_path / "raw.txt", [*LINES[:2], line, *LINES[3:5], b"{"])
    with pytest.raises(cdconv.InvalidSourceError, match=rf"^{re.escape(str(path))}:3: ") as caught:
        cdconv.read_rows(path)
    assert len(str(caught.value).splitlines()) == 1


def test_too_few_rows_are_rejected(tmp_path):
    for count in (0, 4):
        with pytest.raises(cdconv.InvalidSourceError, match=rf"raw\.txt: {count} lines; at least 5"):
            cdconv.read_rows(write(tmp_path / "raw.txt", LINES[:count]))
    assert len(cdconv.read_rows(write(tmp_path / "raw.txt", LINES[:5]))) == 5


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 5)
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.text(st.characters(categories=["Cs", "Zs", "Cc", "Lo"]), max_size=3)
    | st.sampled_from([*FILES, *BOTS, *METHODS, "persona", "0"])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner))


@given(
    line=st.sampled_from([PLAIN, HISTORY, *LINES[:40]]),
    key=st.sampled_from([*KEYS, "persona"]) | st.text(max_size=3),
    value=VALUES,
    remove=st.sampled_from([True, False, False, False]),
    number=st.integers(1, 5),
    ascii_only=st.booleans(),
)
@settings(deadline=None, max_examples=200, database=None)
def test_a_row_with_one_changed_field_is_valid_or_the_error_names_it(
    tmp_path_factory, line, key, value, remove, number, ascii_only
):
    changed = {k: v for k, v in line.items() if k != key} | ({} if remove else {key: value})
    raw = json.dumps(changed, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    lines = [*LINES[:5]]
    lines[number - 1] = raw
    path = write(tmp_path_factory.getbasetemp() / "changed.txt", lines)
    if is_valid(changed):
        row = cdconv.read_rows(path)[number - 1]
        assert [row[column] for column in UTTERANCES] == [changed[column] for column in UTTERANCES]
        assert (row["label"], row["persona"]) == (changed["label"], changed.get("persona"))
    else:
        with pytest.raises(cdconv.InvalidSourceError) as caught:
            cdconv.read_rows(path)
        assert str(caught.value).startswith(f"{path}:{number}: ")


@given(data=st.data(), junk=st.binary(max_size=3))
@settings(deadline=None, max_examples=150, database=None)
def test_a_file_with_changed_bytes_is_valid_or_the_error_names_the_place(tmp_path_factory, data, junk):
    raw = b"\n".join(encode(line) for line in LINES[:6])
    start = data.draw(st.integers(0, len(raw)))
    path = tmp_path_factory.getbasetemp() / "bytes.txt"
    path.write_bytes(raw[:start] + junk + raw[start + data.draw(st.integers(0, 3)) :])
    try:
        assert len(cdconv.read_rows(path)) >= 5
    except cdconv.InvalidSourceError as error:
        assert re.match(rf"{re.escape(str(path))}:[1-9]: ", str(error))


# --- the checksum --------------------


@pytest.mark.parametrize("change", ["cut by a row", "one character"])
def test_a_file_that_is_not_the_release_is_rejected_as_the_default(change, release, tmp_path, monkeypatch):
    raw = release.read_bytes()
    path = tmp_path / "cdconv.txt"
    if change == "cut by a row":
        path.write_bytes(raw[: raw.rstrip(b"\n").rindex(b"\n") + 1])
    else:
        path.write_bytes(raw.replace("不".encode(), "很".encode(), 1))
    cdconv.read_rows(path)  # every row is valid, so only the checksum can tell
    monkeypatch.setenv("CDCONV_FILE", str(path))
    builder = cdconv.CDConv(cache_dir=str(tmp_path / "cache"), config_name="2-class")
    for read in (build.find, builder.download_and_prepare):  # the two ways to the default source
        with pytest.raises(cdconv.NonMatchingChecksumError) as caught:
            read()
        for part in (str(path), cdconv.sha256(path), cdconv.SHA256, "cut or changed"):
            assert part in str(caught.value)
    # Named explicitly as the source, it counts as a file of the user.
    assert build.find(str(path)).kind == "custom"


def test_the_release_is_recognised_by_its_content(release, tmp_path, monkeypatch):
    assert (release.stat().st_size, cdconv.sha256(release)) == (
        3_084_534,
        "ed8fe0ddb40afb36f9e19ea64c3eee7c319a22230a5b65444af44e8bbb122aab",
    )
    copy = tmp_path / "another name"
    copy.write_bytes(release.read_bytes())
    assert build.find(str(copy)) == build.Source(copy, "release")
    monkeypatch.setenv("CDCONV_FILE", str(copy))
    assert build.find() == build.Source(copy, "release")
