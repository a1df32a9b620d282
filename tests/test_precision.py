"""The precision of the arithmetic: faster ones give nearly the same, and never half a result."""

import json
import subprocess
import sys

import pytest

from contradiction.commands.options import SHIPPED
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError


@pytest.fixture(scope="module")
def chats(sample_rows):
    texts = ([row[column] for column in ("u1", "b1", "u2", "b2")] for row in sample_rows[:60])
    return [[{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(each)] for each in texts]


def test_bf16_moves_probabilities_by_little_and_labels_hardly_ever(chats):
    exact, fast = (
        ContradictionDetector.from_pretrained(SHIPPED, precision=precision).batch(chats)
        for precision in ("fp32", "bf16")
    )
    both = list(zip(exact, fast, strict=True))
    moved = [max(abs(one.scores[name] - other.scores[name]) for name in one.scores) for one, other in both]
    assert 0 < max(moved) < 0.1
    assert sum(one.label == other.label for one, other in both) >= 0.95 * len(chats)


def test_fp16_is_refused_on_a_cpu(quick_model):
    with pytest.raises(InputError, match="fp16 is slower than fp32 on a CPU; bf16"):
        ContradictionDetector.from_pretrained(quick_model, device="cpu", precision="fp16")


def test_the_command_line_reads_in_it_too(quick_model):
    chat = '[{"role": "user", "content": "你好"}, {"role": "assistant", "content": "你好呀"}]'
    scores = {}
    for precision in ("fp32", "bf16"):
        process = [sys.executable, "-m", "contradiction", "detect", "--model", str(quick_model), "--text", chat]
        done = subprocess.run([*process, "--precision", precision], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        scores[precision] = json.loads(done.stdout)["scores"]
    assert scores["bf16"] == pytest.approx(scores["fp32"], abs=0.05)
    assert scores["bf16"] != scores["fp32"]


def test_an_unknown_precision_is_refused_before_anything_is_loaded(tmp_path):
    with pytest.raises(InputError, match="precision 'int4'; allowed are fp32, bf16, fp16"):
        ContradictionDetector.from_pretrained(tmp_path / "not-there", precision="int4")
