"""`cdconv detect --out`: nothing is lost or overwritten, and a killed run is continued to the same files."""

import json
import os
import shutil

import pytest
from helpers.chats import line, objects

from contradiction.chats.detection import Detection
from contradiction.chats.writers import line_file, rejected_path
from contradiction.decision import Rule
from contradiction.errors import InputError
from contradiction.methods.loading import save_rule
from contradiction.paths import SHIPPED


@pytest.fixture
def whole(detect, mixed, small_chunks, tmp_path):
    """The output of an uninterrupted run: the verdicts, and beside them the rejected lines and the run options."""
    out = tmp_path / "whole.jsonl"
    assert detect(mixed, "--out", out)[0] == 1
    return out


def copied(out, to):
    for path in out.parent.glob(f"{out.name}*"):
        shutil.copy(path, path.with_name(path.name.replace(out.name, to)))
    return out.with_name(to)


def kept(out):
    return [path.read_bytes() for path in (out, rejected_path(out))]


def test_out_receives_complete_lines_and_is_never_overwritten(detect, mixed, tmp_path):
    out = tmp_path / "folder" / "v.jsonl"
    code, answers, err = detect(mixed, "--out", out)
    assert (code, answers) == (1, [])
    _, expected, _ = detect(mixed)
    assert objects(out) == expected
    *notes, last = detect(mixed)[2]
    assert f"cdconv: {mixed}.rejected.jsonl: existed already; the inputs rejected now replace it" in notes
    shown = last.split(" → ")
    assert err[-1].split(" → ") == [shown[0], f"{out}.rejected.jsonl"]
    assert shown[1] == f"{mixed}.rejected.jsonl"
    before = kept(out)
    code, _, [summary] = detect(mixed, "--out", out)
    assert (code, "--resume continues it" in summary) == (2, True)
    assert kept(out) == before


def lines_until(file, number):
    """The lines of a file up to a line number of the input."""
    lines = file.read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if json.loads(line)["line"] <= number)


def test_a_run_interrupted_anywhere_ends_with_the_same_files(detect, mixed, whole):
    # The last number among the rejected lines and among the verdicts. The verdicts of a chunk are written after them.
    for refused, answered, torn in (
        (0, 0, b'{"line"'), (10, 10, b""), (28, 20, b'{"line": 21, "id": '), (28, 29, b""), (28, 33, b"\xe5"),
        (46, 45, b""), (57, 45, b"{"),
    ):  # fmt: skip
        cut = copied(whole, "cut.jsonl")
        cut.write_bytes(lines_until(whole, answered) + torn)
        rejected = rejected_path(cut)
        rejected.write_bytes(lines_until(rejected, refused))
        code, _, err = detect(mixed, "--out", cut, "--resume")
        assert kept(cut) == kept(whole), (refused, answered, torn)
        count = [len(result.splitlines()) for result in kept(whole)]
        assert code == 1
        assert err[-1].startswith(f"cdconv: {count[0]} chats, ")
        assert err[-1].endswith(f" {count[1]} inputs rejected → {cut}.rejected.jsonl")


SMALL_CHUNKS = "from contradiction.chats import chunks; chunks.CHUNK_WINDOWS = 8\n"


def test_only_the_same_run_can_be_resumed(detect, mixed, whole, detect_model, tmp_path):
    before = kept(whole)
    moved = shutil.copytree(detect_model, tmp_path / "moved")
    (moved / "README.md").write_text("a card bears on no verdict", encoding="utf-8")
    same = shutil.copy(mixed, tmp_path / "renamed.jsonl")
    again = detect(same, "--out", whole, "--resume", "--batch-size", "8", model=moved)
    assert again[0] == 1, "because of the rejected lines"
    assert [len(result.splitlines()) for result in kept(whole)] == [len(path.splitlines()) for path in before]
    before = kept(whole)
    save_rule(moved, Rule(temperature=2))
    other = tmp_path / "other.jsonl"
    other.write_bytes(mixed.read_bytes() + b"\n" + line().encode())
    for expected_message, arguments, options in (
        ("another model", [mixed], {"model": moved}),
        ("another input", [other], {}),
        ("another threshold", [mixed, "--threshold", "0.4"], {}),
        ("another scan", [mixed, "--scan"], {}),
    ):
        code, _, [message] = detect(*arguments, "--out", whole, "--resume", **options)
        assert code == 2
        assert f"was made with {expected_message}; --resume continues only the same run" in message
    assert kept(whole) == before
    (tmp_path / "whole.jsonl.run.json").unlink()
    code, _, [message] = detect(mixed, "--out", whole, "--resume")
    assert (code, "no whole.jsonl.run.json" in message) == (2, True)


def test_resume_starts_a_new_run_if_there_is_none(detect, mixed, tmp_path):
    out = tmp_path / "v.jsonl"
    detect(mixed, "--out", out, "--resume")
    assert objects(out) == detect(mixed)[1]


def test_a_foreign_file_is_not_truncated(detect, mixed, tmp_path):
    out = tmp_path / "v.jsonl"
    detect(mixed, "--out", out)
    out.write_text('{"line": 1, "label": null, "checked": false, "reason": null}\nnotes\n', encoding="utf-8")
    code, _, [message] = detect(mixed, "--out", out, "--resume")
    assert (code, "v.jsonl:2: not a line that" in message) == (2, True)
    assert "notes" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "damaged", ["[]", "5", '{"line": 1}', '{"line": "1", "label": null, "checked": true, "reason": null}',
                '{"line": 1, "verdicts": 5}', '{"line": 1, "verdicts": [5]}', '{"line": 1, "verdicts": {"label": 1}}'],
)  # fmt: skip
def test_a_line_without_a_verdict_is_named(tmp_path, damaged):
    file = tmp_path / "v.jsonl"
    file.write_text(f'{{"line": 1, "label": null, "checked": true, "reason": null}}\n{damaged}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"v\.jsonl:2: not a line that `cdconv detect --out` wrote"):
        list(line_file(file, "line", of_verdicts=True).read())


def test_the_input_is_never_overwritten(detect, tmp_path):
    """The input may be named as OUT, as a file beside OUT, or through a link."""
    content = (line() + "\n{\n").encode()
    for name in ("a.jsonl", "a.jsonl.rejected.jsonl", "a.jsonl.run.json"):
        for link in (None, os.symlink, os.link):
            folder = tmp_path / f"{name}-{link and link.__name__}"
            folder.mkdir()
            file = folder / (name if link is None else "input.jsonl")
            file.write_bytes(content)
            if link:
                link(file, folder / name)
            before = sorted(folder.iterdir())
            for resume in ([], ["--resume"]):
                code, answers, [message] = detect(file, "--format", "jsonl", "--out", folder / "a.jsonl", *resume)
                assert (code, answers) == (2, [])
                assert f"{folder / name}: is the input" in message
                assert sorted(folder.iterdir()) == before
                assert file.read_bytes() == content


@pytest.mark.parametrize("out", [False, True])
def test_a_file_of_rejected_lines_is_replaced_only_if_there_are_some(detect, tmp_path, out, small_chunks):
    file = tmp_path / "chats.jsonl"
    name, options = (tmp_path / "v.jsonl", ["--out", tmp_path / "v.jsonl"]) if out else (file, [])
    rejected = rejected_path(name)
    rejected.write_text("notes\n", encoding="utf-8")
    if not out:
        file.write_text(line(), encoding="utf-8")
        assert detect(file, "--quiet")[::2] == (0, []) and rejected.read_text(encoding="utf-8") == "notes\n"
    file.write_text("\n".join([line(), *["{"] * 20]), encoding="utf-8")  # more than one chunk
    assert detect(file, "--quiet", *options)[0] == 1
    assert [answer["line"] for answer in objects(rejected)] == [*range(2, 22)]


@pytest.mark.parametrize("which", ["verdicts", "rejected"])
def test_a_run_with_a_removed_line_cannot_be_resumed(detect, mixed, whole, which):
    out = copied(whole, "cut.jsonl")
    file = out if which == "verdicts" else rejected_path(out)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:1] + lines[2:]))
    code, _, [message] = detect(mixed, "--out", out, "--resume")
    assert (code, "lines were removed or added" in message) == (2, True)


def test_a_judge_computes_in_no_precision_that_another_machine_could_lack(tmp_path):
    (tmp_path / "judge.json").write_text('{"model": "m"}', encoding="utf-8")
    one, other = (Detection(str(tmp_path), precision=precision).request("digest") for precision in ("fp32", "bf16"))
    assert one == other


def test_a_model_is_the_same_by_its_name_and_by_its_folder():
    named, folder = (Detection(model).request("digest") for model in (SHIPPED.name, str(SHIPPED)))
    assert named == folder
