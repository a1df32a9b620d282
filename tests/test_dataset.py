"""The data set: what counts as a raw file, how rows are split, and the builder that `datasets` runs."""

import hashlib
import json
import random
import re
from collections import Counter

import pytest
from datasets import ClassLabel, Value
from hypothesis import given, settings
from hypothesis import strategies as st

import cdconv
import contradiction.labels
import evaluate_metric.evaluate_metric
from contradiction.data import sources
from contradiction.data.sources import SAMPLE
from contradiction.data.statistics import overlap

CONTEXT = ("u1", "b1", "u2")
LINES = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
PLAIN = next(line for line in LINES if line["label"] == 0)
HISTORY = next(line for line in LINES if line["label"] == 3)

# What a raw row may hold, said once more in the words of DESIGN.md and not taken from the code.
FILES = ["1st", "2nd4", "3rd", "4nd", "5nd"]
BOTS = ["eva", "plato"]
METHODS = ["短句", "设问-bot", "设问-user", "设问-user-v2", "同义-回译", "同义-同义词", "反义-反义词", "反义-否定词"]
UTTERANCES = ["u1", "b1", "u2", "b2"]
KEYS = ["file", "model", "method", *UTTERANCES, "label"]


@pytest.fixture(autouse=True)
def no_default_source(monkeypatch):
    """No test here depends on whether $CDCONV_FILE is set outside."""
    monkeypatch.delenv("CDCONV_FILE", raising=False)


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


def encode(line):
    return line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode("utf-8")


def write(path, lines):
    path.write_bytes(b"".join(encode(line) + b"\n" for line in lines))
    return path


def digest(rows):
    return hashlib.sha256(",".join(str(row["id"]) for row in rows).encode()).hexdigest()[:16]


def is_valid(line):
    """The raw format, independently of the code."""

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


# --- what is in the released file -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "counts"),
    [
        ("label", {0: 7309, 1: 530, 2: 765, 3: 3056}),
        ("persona", {1: 1457, 2: 657, 3: 874, 0: 68, None: 8604}),
        ("bot", {"eva": 5458, "plato": 6202}),
        ("batch", {1: 1823, 2: 2904, 3: 2172, 4: 2036, 5: 2725}),
        (
            "trigger",
            {
                "short": 1516,
                "inquiring-bot": 2592,
                "inquiring-user": 480,
                "inquiring-user-m": 1821,
                "paraphrasing": 2645,
                "perturb-synonym": 956,
                "perturb-antonym": 750,
                "perturb-negative": 900,
            },
        ),
    ],
)
def test_release_counts_by(column, counts, rows):
    assert Counter(row[column] for row in rows) == counts


def test_release_has_11660_distinct_rows_and_no_empty_utterance(rows):
    assert len(rows) == 11_660
    assert len({tuple(row[column] for column in UTTERANCES) + (row["label"], row["trigger"]) for row in rows}) == 11_660
    lengths = [len(row[column].strip()) for row in rows for column in UTTERANCES]
    assert min(lengths) > 0
    assert max(lengths) == 72


def test_release_has_5197_first_utterances_and_most_rows_share_theirs(rows):
    count = Counter(row["u1"] for row in rows)
    assert len(count) == 5_197
    assert sum(count[row["u1"]] > 1 for row in rows) == 10_163
    assert max(Counter(tuple(row[column] for column in CONTEXT) for row in rows).values()) == 4


def test_ids_are_the_line_numbers_of_the_raw_file(any_rows):
    assert [row["id"] for row in any_rows] == list(range(1, len(any_rows) + 1))


def test_rows_say_what_the_raw_lines_say(tmp_path):
    trigger = dict(zip(METHODS, (
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


def test_line_ends_of_windows_and_a_missing_last_one_change_nothing(tmp_path):
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
    found = cdconv.official_split(rows)[side]
    ids = [row["id"] for row in found]
    assert (len(ids), ids[:3], ids[-3:], digest(found)) == (size, first, last, sequence)


def test_official_split_is_the_authors(any_rows, sample_rows, request):
    """Held against the authors' own steps, on the lines of the file and with the global generator."""
    path = SAMPLE if any_rows is sample_rows else request.getfixturevalue("release")
    lines = path.read_text(encoding="utf-8").splitlines()
    state = random.getstate()
    random.seed(13)
    random.shuffle(lines)
    random.setstate(state)
    size = int(0.2 * len(lines))
    theirs = {"validation": lines[:size], "test": lines[size : 2 * size], "train": lines[2 * size :]}
    ours = cdconv.official_split(any_rows)
    for side, chosen in theirs.items():
        raw = [json.loads(line) for line in chosen]
        for ours_row, theirs_row in zip(ours[side], raw, strict=True):
            assert all(ours_row[column] == theirs_row[column] for column in (*UTTERANCES, "label"))


@given(st.integers(5, 400))
@settings(deadline=None, max_examples=50, database=None)
def test_official_split_puts_every_row_on_one_side(size):
    sides = cdconv.official_split(range(size))
    assert sorted(row for side in sides.values() for row in side) == list(range(size))
    assert len(sides["validation"]) == len(sides["test"]) == size // 5


def test_official_split_leaves_the_global_generator_and_its_argument_alone(sample_rows):
    before, order = random.getstate(), [row["id"] for row in sample_rows]
    cdconv.official_split(sample_rows)
    assert random.getstate() == before
    assert [row["id"] for row in sample_rows] == order


@pytest.mark.parametrize(
    ("side", "size", "sequence"),
    [
        ("train", 6995, "10e68e662b6c4f57"),
        ("validation", 2332, "e5c635b98b9529ed"),
        ("test", 2333, "6e191f696c77319a"),
    ],
)
def test_grouped_split_is_pinned(side, size, sequence, grouped):
    found = grouped[side]
    assert (len(found), digest(found)) == (size, sequence)


def test_grouped_split_of_made_up_rows_is_pinned():
    """Without the release, too: a change of seed, fold or library that moves rows between sides is noticed."""
    rows = [
        {"id": n, "u1": str(n * n % 97), "label": n % 4, "persona": n % 3 if n % 4 == 3 else None} for n in range(400)
    ]
    sides = cdconv.grouped_split(rows)
    assert {side: digest(found) for side, found in sides.items()} == {
        "train": "ece672281829565e",
        "validation": "cb5aa78945fc9c74",
        "test": "da7e0c4dade8ba94",
    }


def test_grouped_split_puts_every_row_on_one_side_in_the_order_of_the_file(any_rows, any_grouped):
    assert list(any_grouped) == ["train", "validation", "test"]
    ids = [[row["id"] for row in side] for side in any_grouped.values()]
    assert all(each == sorted(each) for each in ids)
    assert sorted(number for each in ids for number in each) == list(range(1, len(any_rows) + 1))


def test_no_first_utterance_stands_on_two_sides_of_the_grouped_split(any_grouped):
    train, validation, test = ({row["u1"] for row in side} for side in any_grouped.values())
    assert not train & validation
    assert not train & test
    assert not validation & test


def test_grouped_split_is_stratified_within_a_point(rows, grouped):
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
        assert overlap(grouped, CONTEXT, side) == overlap(grouped, ("u1",), side) == 0


def test_too_few_first_utterances_are_refused_by_the_grouped_split(sample_rows):
    with pytest.raises(cdconv.InvalidSourceError, match=r"478 rows with 4 distinct u1 are too few"):
        cdconv.grouped_split([row | {"u1": str(row["id"] % 4)} for row in sample_rows])


# --- validation: one error a bad row, that names the place, the column, the value and what is allowed ---------------

BAD = {
    "bad JSON": (b'{"file": "1st", ', ["not a line of UTF-8 JSON"]),
    "two objects": (encode(PLAIN) * 2, ["not a line of UTF-8 JSON", "Extra data"]),
    "bad UTF-8": (encode(PLAIN).replace("设问".encode(), "设问".encode("gbk")), ["not a line of UTF-8 JSON", "utf-8"]),
    "blank line": (b"", ["not a line of UTF-8 JSON"]),
    "BOM": (b"\xef\xbb\xbf" + encode(PLAIN), ["not a line of UTF-8 JSON", "BOM"]),
    "nested too deep": (b"[" * 100_000, ["not a line of UTF-8 JSON"]),
    "number too long": (b'{"label": ' + b"9" * 5000 + b"}", ["not a line of UTF-8 JSON"]),
    "list": (b'["u1", "b1"]', ["list", "JSON object"]),
    "string": (b'"u1"', ["str", "JSON object"]),
    "null": (b"null", ["NoneType", "JSON object"]),
    **{
        f"missing {key}": (
            {k: v for k, v in PLAIN.items() if k != key},
            [f"column '{key}' is missing", ", ".join(KEYS)],
        )
        for key in KEYS
    },
    "unknown column": (PLAIN | {"b3": "好"}, ["column 'b3' is '好'", "no such column", ", ".join(KEYS)]),
    "persona on a row of another label": (PLAIN | {"persona": 1}, ["column 'persona' is 1", "only rows of label 3"]),
    "persona null on a row of another label": (PLAIN | {"persona": None}, ["column 'persona' is None", "label 3"]),
    "persona missing on a history row": (
        {key: value for key, value in HISTORY.items() if key != "persona"},
        ["column 'persona' is missing", "persona"],
    ),
    **{
        f"persona {value!r}": (HISTORY | {"persona": value}, [f"column 'persona' is {value!r};", "0, 1, 2, 3"])
        for value in (4, -1, True, 1.0, "1", None)
    },
    **{
        f"label {value!r}": (PLAIN | {"label": value}, [f"column 'label' is {value!r};", "0, 1, 2, 3"])
        for value in (4, -1, True, False, 0.0, "0", None, [0])
    },
    **{
        f"{column} {value!r}": (PLAIN | {column: value}, [f"column '{column}' is {value!r};", *map(repr, allowed)])
        for column, value, allowed in (
            ("method", "设问", METHODS),
            ("method", "short", METHODS),
            ("model", "EVA", BOTS),
            ("model", None, BOTS),
            ("file", "2nd", FILES),
            ("file", 1, FILES),
            ("file", ["1st"], FILES),
        )
    },
    **{
        f"{column} {value!r}": (PLAIN | {column: value}, [f"column '{column}' is {value!r};", "text that is not blank"])
        for column, value in (("u1", ""), ("b1", " \t"), ("u2", "\u3000"), ("b2", 7), ("b2", None), ("u1", ["好"]))
    },
    "lone surrogate": (
        json.dumps(PLAIN | {"b2": "好\ud83d"}).encode(),
        ["column 'b2' is '好\\ud83d'", "without lone surrogates"],
    ),
}


@pytest.mark.parametrize(("line", "parts"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("number", [1, 3])
def test_bad_row_is_refused_with_its_place_and_what_is_allowed(line, parts, number, tmp_path):
    lines = [*LINES[:5]]
    lines[number - 1] = line
    path = write(tmp_path / "raw.txt", lines)
    with pytest.raises(cdconv.InvalidSourceError) as caught:
        cdconv.read_rows(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{number}: ")
    for part in parts:
        assert part in message
    assert len(message.splitlines()) == 1


def test_the_first_of_several_bad_rows_is_named(tmp_path):
    path = write(tmp_path / "raw.txt", [*LINES[:4], b"", *LINES[4:8], b"{"])
    with pytest.raises(cdconv.InvalidSourceError, match=r"raw\.txt:5: "):
        cdconv.read_rows(path)


@pytest.mark.parametrize("count", range(5))
def test_too_few_rows_are_refused(count, tmp_path):
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
@settings(deadline=None, max_examples=500, database=None)
def test_one_changed_field_is_valid_or_named(tmp_path_factory, line, key, value, remove, number, ascii_only):
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
@settings(deadline=None, max_examples=300, database=None)
def test_changed_bytes_are_valid_or_named(tmp_path_factory, data, junk):
    raw = b"\n".join(encode(line) for line in LINES[:6])
    start = data.draw(st.integers(0, len(raw)))
    path = tmp_path_factory.getbasetemp() / "bytes.txt"
    path.write_bytes(raw[:start] + junk + raw[start + data.draw(st.integers(0, 3)) :])
    try:
        assert len(cdconv.read_rows(path)) >= 5
    except cdconv.InvalidSourceError as error:
        assert re.match(rf"{re.escape(str(path))}:[1-9]: ", str(error))


# --- the checksum ---------------------------------------------------------------------------------------------------


def read_default(tmp_path):
    """The two ways to the default source: the command line's, and the builder's."""
    yield lambda: sources.find()
    yield lambda: cdconv.CDConv(cache_dir=str(tmp_path / "cache"), config_name="2-class").download_and_prepare()


@pytest.mark.parametrize("change", ["cut by a row", "one character"])
def test_a_file_that_is_not_the_release_is_refused_as_the_default(change, release, tmp_path, monkeypatch):
    raw = release.read_bytes()
    path = tmp_path / "cdconv.txt"
    if change == "cut by a row":
        path.write_bytes(raw[: raw.rstrip(b"\n").rindex(b"\n") + 1])
    else:
        path.write_bytes(raw.replace("不".encode(), "很".encode(), 1))
    cdconv.read_rows(path)  # every row is valid: only the checksum can tell
    monkeypatch.setenv("CDCONV_FILE", str(path))
    for read in read_default(tmp_path):
        with pytest.raises(cdconv.NonMatchingChecksumError) as caught:
            read()
        for part in (str(path), cdconv.sha256(path), cdconv.SHA256, "cut or changed"):
            assert part in str(caught.value)
    # Named as the source it is a file of one's own.
    assert sources.find(str(path)).kind == "custom"


def test_a_release_cut_within_a_row_names_that_row(release, tmp_path, monkeypatch):
    path = tmp_path / "cdconv.txt"
    path.write_bytes(release.read_bytes()[:-40])
    monkeypatch.setenv("CDCONV_FILE", str(path))
    for read in read_default(tmp_path):
        with pytest.raises(cdconv.InvalidSourceError, match=r"cdconv\.txt:11660: not a line of UTF-8 JSON"):
            read()


def test_the_sample_is_not_taken_for_the_release(tmp_path, monkeypatch):
    monkeypatch.setenv("CDCONV_FILE", str(SAMPLE))
    for read in read_default(tmp_path):
        with pytest.raises(cdconv.NonMatchingChecksumError):
            read()


def test_the_release_is_known_by_its_content(release, tmp_path, monkeypatch):
    assert (release.stat().st_size, cdconv.sha256(release)) == (
        3_084_534,
        "ed8fe0ddb40afb36f9e19ea64c3eee7c319a22230a5b65444af44e8bbb122aab",
    )
    copy = tmp_path / "another name"
    copy.write_bytes(release.read_bytes())
    assert sources.find(str(copy)) == sources.Source(copy, "release")
    monkeypatch.setenv("CDCONV_FILE", str(copy))
    assert sources.find() == sources.Source(copy, "release")


# --- the builder ----------------------------------------------------------------------------------------------------


def build(cache, config, source=SAMPLE):
    builder = cdconv.CDConv(cache_dir=str(cache), config_name=config, source=str(source) if source else None)
    builder.download_and_prepare()
    return builder


@pytest.mark.parametrize("config", [each.name for each in cdconv.CDConv.BUILDER_CONFIGS])
def test_builder_gives_the_rows_of_the_split_in_its_order(config, tmp_path, sample_rows):
    task = config.removesuffix("-grouped")
    split = cdconv.official_split if task == config else cdconv.grouped_split
    built = build(tmp_path, config).as_dataset()
    assert list(built) == ["train", "validation", "test"]
    for side, rows in split(sample_rows).items():
        expected = [row for row in rows if task != "persona" or row["label"] == 3]
        label = {"2-class": lambda row: int(row["label"] > 0), "4-class": lambda row: row["label"]}.get(
            task, lambda row: row["persona"]
        )
        trigger, bot = built[side].features["trigger"], built[side].features["bot"]
        assert built[side].to_list() == [
            {key: row[key] for key in ("id", *UTTERANCES, "batch")}
            | {"label": label(row), "trigger": trigger.str2int(row["trigger"]), "bot": bot.str2int(row["bot"])}
            for row in expected
        ]


def test_builder_without_a_name_gives_4_class(tmp_path):
    assert cdconv.CDConv(cache_dir=str(tmp_path)).config.name == "4-class"


def test_builder_on_the_release_checks_it_and_gives_its_rows(release, tmp_path, monkeypatch):
    monkeypatch.setenv("CDCONV_FILE", str(release))
    built = build(tmp_path, "persona", source=None).as_dataset()
    assert {side: len(rows) for side, rows in built.items()} == {"train": 1859, "validation": 608, "test": 589}


def test_builder_answers_a_changed_source_with_new_rows(tmp_path):
    path = write(tmp_path / "raw.txt", LINES)
    first = build(tmp_path / "cache", "4-class", path)
    assert build(tmp_path / "cache", "4-class", path).cache_dir == first.cache_dir
    write(path, [line | {"b2": "换了一句话"} for line in LINES])
    second = build(tmp_path / "cache", "4-class", path)
    assert second.cache_dir != first.cache_dir
    assert set(second.as_dataset("test")["b2"]) == {"换了一句话"}
    assert "换了一句话" not in first.as_dataset("test")["b2"]


def test_builder_answers_a_changed_default_source_with_new_rows(tmp_path, monkeypatch):
    keys = []
    for name, lines in (("one", LINES), ("two", LINES[::-1])):
        monkeypatch.setenv("CDCONV_FILE", str(write(tmp_path / name, lines)))
        keys.append(cdconv.CDConv(cache_dir=str(tmp_path)).cache_dir)
    assert keys[0] != keys[1]


def test_builder_shows_the_error_of_a_bad_row_as_it_is(tmp_path):
    path = write(tmp_path / "raw.txt", [*LINES[:6], PLAIN | {"label": 9}])
    with pytest.raises(cdconv.InvalidSourceError, match=r"raw\.txt:7: column 'label' is 9; allowed are 0, 1, 2, 3"):
        build(tmp_path / "cache", "4-class", path)


def test_builder_names_a_source_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt: no such file"):
        build(tmp_path / "cache", "4-class", tmp_path / "nowhere.txt")


def test_the_columns_are_flat_and_typed(tmp_path):
    features = cdconv.CDConv(cache_dir=str(tmp_path), config_name="4-class").info.features
    assert dict(features) == {
        "id": Value("int32"),
        **dict.fromkeys(UTTERANCES, Value("string")),
        "label": ClassLabel(names=["non-contradiction", "intra-sentence", "role-confusion", "history"]),
        "trigger": ClassLabel(
            names=[
                "short",
                "inquiring-bot",
                "inquiring-user",
                "inquiring-user-m",
                "paraphrasing",
                "perturb-synonym",
                "perturb-antonym",
                "perturb-negative",
            ]
        ),
        "bot": ClassLabel(names=["eva", "plato"]),
        "batch": Value("int8"),
    }
    assert list(features) == ["id", *UTTERANCES, "label", "trigger", "bot", "batch"]


def test_the_three_label_tables_are_equal():
    """The library and the metric may know more tasks than the data set has; what they share is the same."""
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


def test_every_config_is_known_to_the_library_by_name_and_task():
    configs = [each.name for each in cdconv.CDConv.BUILDER_CONFIGS]
    assert configs == ["2-class", "4-class", "persona", "2-class-grouped", "4-class-grouped", "persona-grouped"]
    assert set(configs) <= set(contradiction.labels.CONFIGS)
    tasks = [contradiction.labels.task_of(config) for config in configs]
    assert tasks == [each.task for each in cdconv.CDConv.BUILDER_CONFIGS] == ["2-class", "4-class", "persona"] * 2
