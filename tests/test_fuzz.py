"""Hostile bytes and values: every parser returns a result or raises one line. `make fuzz` tries many more of them."""

import io
import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from helpers.chats import CHAT, line
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from contradiction.chats import formats, readers
from contradiction.conversation import read_turns
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION
from contradiction.io import manifest
from contradiction.settings import Settings
from contradiction.training.recipe import load_recipe, recipe_files

COUNT = int(os.environ.get("CDCONV_FUZZ", "0"))
ROWS = 30
RECIPES = [*recipe_files().values()]


def fuzz_settings(usual, share=1):
    """This many examples, or a share of the requested number in `make fuzz`, which uses new ones each time."""
    return settings(
        max_examples=max(usual, COUNT // share), derandomize=not COUNT, deadline=None, database=None,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def one_line(error):
    assert str(error)
    assert "\n" not in str(error)


def damaged(content, seed):
    """The content with a few bytes changed, removed, or repeated."""
    chance = random.Random(seed)
    content = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        place = chance.randrange(len(content)) if content else 0
        match chance.randrange(5):
            case 0:
                del content[place:]
            case 1:
                content[place:place] = content[place : place + chance.randrange(1, 40)]
            case 2:
                del content[place : place + chance.randrange(1, 9)]
            case _:
                content[place : place + 1] = bytes([chance.randrange(256)])
    return bytes(content)


def check_entries(entries):
    for entry in entries:
        assert bool(entry.messages) != bool(entry.error)
        if entry.error:
            assert "\n" not in entry.error


def array_of(items):
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array


DEEP: list = []
for _ in range(5000):
    DEEP = [DEEP]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.builds(lambda: 10**5000)
    | st.builds(lambda: DEEP)
    | st.sampled_from([b"x", bytearray(b"x"), range(2), {"我"}, object(), "x\ny" * 400, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "tool_calls", "messages", "x"]), inner)
        | st.builds(array_of, st.lists(inner, max_size=3))
    ),
    max_leaves=12,
)
seeds = st.integers(0, 2**48)


@fuzz_settings(100)
@given(values)
def test_any_value_is_a_chat_or_raises_one_line(value):
    for messages in (value, [value], [CHAT[0], value], [{**CHAT[1], "tool_calls": value}], [{"role": value}]):
        try:
            read_turns(messages)
        except InputError as error:
            assert str(error).startswith("messages") and str(error).isprintable() and len(str(error)) <= 300


@fuzz_settings(60)
@given(st.dictionaries(st.sampled_from(["threshold", "prior", "categories", "windowing", "max_turns"]), values))
def test_any_setting_is_accepted_or_raises_one_line(given_values):
    try:
        Settings(**given_values)
    except InputError as error:
        one_line(error)


@pytest.mark.parametrize("format", ["jsonl", "json", "csv", "tsv"])
@fuzz_settings(40, 4)
@given(seed=seeds, junk=st.binary(max_size=200))
def test_any_text_file_yields_entries_or_raises_one_line(format, seed, junk):
    lines = [line(id=number) for number in range(3)]
    if format == "json":
        lines = [f"[{','.join(lines)}]"]
    elif format != "jsonl":
        delimiter = formats.DELIMITERS[format]
        cells = [f'"{message["content"]}"' for message in CHAT]
        lines = [delimiter.join(CONVERSATION), delimiter.join(cells), delimiter.join(cells)]
    whole = "\n".join(lines).encode() + b"\n"
    for content in (damaged(whole, seed), junk, whole + junk):
        try:
            check_entries(readers.open_stream(io.BufferedReader(io.BytesIO(content)), "it", format))
        except InputError as error:
            one_line(error)


@pytest.fixture(scope="module")
def rows_of_parquet(tmp_path_factory):
    file = tmp_path_factory.mktemp("parquet") / "a.parquet"
    table = pyarrow.table({"messages": [json.dumps(CHAT)] * ROWS, "id": [*map(str, range(ROWS))]})
    parquet.write_table(table, file, row_group_size=10)
    return file


@fuzz_settings(50)
@given(seed=seeds)
def test_a_damaged_parquet_file_yields_all_rows_or_raises_one_line(rows_of_parquet, seed):
    file = rows_of_parquet.with_name("b.parquet")
    file.write_bytes(damaged(rows_of_parquet.read_bytes(), seed))
    try:
        entries = [*readers.open_file(file)]
    except InputError as error:
        one_line(error)
    else:
        check_entries(entries)
        assert len(entries) == ROWS


@fuzz_settings(60, 10)
@given(seed=seeds)
def test_a_damaged_recipe_is_accepted_or_raises_one_line(tmp_path_factory, seed):
    file = Path(tmp_path_factory.getbasetemp()) / "damaged.toml"
    file.write_bytes(damaged(RECIPES[seed % len(RECIPES)].read_bytes(), seed))
    try:
        load_recipe(file)
    except InputError as error:
        one_line(error)


@fuzz_settings(15, 20)
@given(seed=seeds)
def test_a_damaged_model_folder_gives_a_verdict_or_raises_one_line(random_model, tmp_path_factory, seed):
    folder = Path(tmp_path_factory.getbasetemp()) / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(random_model("4-class"), folder)
    names = ("config.json", "config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors")
    name = names[seed % len(names)]
    content = (folder / name).read_bytes()
    head = 2000 if name == "model.safetensors" else len(content)  # only a manifest can detect changed weights
    manifest.write(folder)
    (folder / name).write_bytes(damaged(content[:head], seed) + content[head:])
    if (folder / name).read_bytes() != content:
        with pytest.raises(InputError, match=name):
            ContradictionDetector.from_pretrained(folder)
    (folder / manifest.NAME).unlink()
    try:
        ContradictionDetector.from_pretrained(folder)(CHAT)
    except InputError as error:
        one_line(error)
