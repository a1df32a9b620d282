"""Raw files: a bad row raises one error that names the place, and only the release counts as the release."""

import json
import re

import pytest
from helpers.data_repo import FILES, TRIGGERS, UTTERANCES, encode, write
from hypothesis import given, settings
from hypothesis import strategies as st

from contradiction import cdconv
from contradiction.data import build
from contradiction.paths import SAMPLE

pytestmark = pytest.mark.usefixtures("no_default_source")

LINES = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
PLAIN = next(line for line in LINES if line["label"] == 0)
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

# The random changes below cover other values.
BAD = {
    "bad JSON": (b'{"file": "1st", ', ["not a line of UTF-8 JSON"]),
    "bad UTF-8": (encode(PLAIN).replace("你".encode(), "你".encode("gbk")), ["not a line of UTF-8 JSON", "utf-8"]),
    "nested too deep": (b"[" * 100_000, ["not a line of UTF-8 JSON"]),
    "missing column": ({key: PLAIN[key] for key in KEYS if key != "b1"}, ["column 'b1' is missing", ", ".join(KEYS)]),
    "unknown column": (PLAIN | {"b3": "好"}, ["column 'b3' is", "no such column", ", ".join(KEYS)]),
    "method": (PLAIN | {"method": "short"}, ["column 'method' is 'short';", *map(repr, METHODS)]),
    "lone surrogate": (json.dumps(PLAIN | {"b2": "好\ud83d"}).encode(), ["column 'b2' is '好\\ud83d'"]),
}


@pytest.mark.parametrize(("line", "parts"), BAD.values(), ids=BAD)
def test_the_error_for_the_first_bad_row_names_its_place_and_the_allowed_values(line, parts, tmp_path):
    path = write(tmp_path / "raw.txt", [*LINES[:2], line, *LINES[3:5], b"{"])
    with pytest.raises(cdconv.InvalidSourceError) as caught:
        cdconv.read_rows(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3: ")
    for part in parts:
        assert part in message
    assert len(message.splitlines()) == 1


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
