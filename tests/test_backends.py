"""Backends, precisions and exported weights give the verdicts of PyTorch in float32, or are not saved."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain

import numpy as np
import onnx
import pytest
import torch
from helpers.chats import CHAT, chat, texts_of
from helpers.hostile_models import fill
from transformers import AutoTokenizer, pipeline

from contradiction import export as exporting
from contradiction.commands.common import SHIPPED
from contradiction.decision import Rule
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.export import export, export_onnx
from contradiction.inference import fastest_backend, torch_backend
from contradiction.inference.base import MOST_PADDING, SMALL, TOKENS, batches
from contradiction.inference.torch_backend import TorchBackend, has_bf16
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.io.pretrained import TOKENIZER_CONFIG, WEIGHTS
from contradiction.labels import HISTORY, INTRA, ROLE
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.loading import chosen_precision, save_rule

FILE = "onnx/model.onnx"
# Backend, precision -> the allowed difference from the probabilities of PyTorch in float32.
TOLERANCE = {
    ("torch", "fp32"): 1e-6,
    ("torch", "bf16"): 0.02,
    ("onnx", "fp32"): 1e-4,
    ("openvino", "fp32"): 1e-4,
    ("openvino", "bf16"): 0.02,
}
EXACT = 1e-4


@pytest.fixture(scope="module")
def rows(sample_rows):
    return sample_rows[:80]


@pytest.fixture(scope="module")
def exported(quick_model, rows, tmp_path_factory):
    """A model folder with the file."""
    folder = shutil.copytree(quick_model, tmp_path_factory.mktemp("onnx") / "model")
    export_onnx(folder, "onnx", rows)
    return folder


@pytest.mark.parametrize("batch_size", [1, 7, 32])
@pytest.mark.parametrize(("backend", "precision"), TOLERANCE)
def test_every_backend_and_batch_size_gives_the_verdicts_of_torch(exported, rows, backend, precision, batch_size):
    if backend == "openvino" and not find_spec("openvino"):
        pytest.skip("needs OpenVINO")
    if precision == "bf16" and not has_bf16():
        pytest.skip("this CPU has no instructions for bf16")
    texts = [texts_of(row) for row in rows]
    long = chat(*chain(*texts[:40]))  # more tokens than the model reads, in one window
    chats = [chat(*each) for each in texts] + [long]
    exact = ContradictionDetector.from_pretrained(exported, device="cpu")
    other = ContradictionDetector.from_pretrained(exported, backend=backend, precision=precision, device="cpu")
    assert type(other.classifier.backend).NAME == backend
    both = list(zip(exact.batch(chats), other.batch(chats, batch_size=batch_size), strict=True))
    tolerance = TOLERANCE[backend, precision]
    for one, two in both:
        assert two.scores == pytest.approx(one.scores, abs=tolerance)
        assert (two.checked, two.reason) == (one.checked, one.reason)
    same = sum(one.label == two.label and one.evidence == two.evidence for one, two in both)
    assert same >= (len(chats) if tolerance <= EXACT else 0.97 * len(chats))


@pytest.mark.parametrize(("backend", "absent"), [("onnx", []), ("auto", ["torch", "accelerate"])])
def test_an_exported_file_runs_without_torch(exported, backend, absent):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent}))\n"
        "from contradiction import ContradictionDetector\n"
        f"detector = ContradictionDetector.from_pretrained({str(exported)!r}, backend={backend!r})\n"
        f"print(detector({CHAT}).probability, sys.modules.get('torch'))\n"
        f"if {absent}: ContradictionDetector.from_pretrained({str(exported)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    probability, loaded = done.stdout.split()
    usual = ContradictionDetector.from_pretrained(exported)(CHAT).probability
    assert (float(probability), loaded) == (pytest.approx(usual, abs=1e-5), "None")
    assert ("PyTorch is missing: pip install torch" in done.stderr) == bool(absent)
    assert "[transformers]" not in done.stderr


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs OpenVINO")
def test_openvino_is_compared_by_its_own_output(exported, rows, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "model")
    [compared] = export_onnx(folder, "openvino", rows)
    assert "openvino_telemetry.main" not in sys.modules, "it would send telemetry"
    assert (compared.file, compared.agreement) == (folder / FILE, 1)
    assert 0 < compared.gap < 1e-4


def test_the_files_are_in_the_manifest_and_a_changed_file_or_one_of_other_weights_is_rejected(
    exported, random_model, tmp_path
):
    folder = shutil.copytree(exported, tmp_path / "model")
    assert f"  {FILE}\n" in (folder / manifest.NAME).read_text(encoding="utf-8")
    (folder / FILE).write_bytes(b"no model")
    with pytest.raises(InputError, match="model.onnx: has changed since SHA256SUMS"):
        ContradictionDetector.from_pretrained(folder, backend="onnx")
    (folder / manifest.NAME).unlink()
    with pytest.raises(InputError, match="model.onnx: ONNX Runtime cannot read it"):
        ContradictionDetector.from_pretrained(folder, backend="onnx")
    other = shutil.copytree(random_model("4-class"), tmp_path / "other")
    shutil.copytree(exported / "onnx", other / "onnx")
    with pytest.raises(InputError, match="was made from other weights.*export it again"):
        ContradictionDetector.from_pretrained(other, backend="onnx")


def test_a_file_that_loses_too_much_accuracy_is_not_saved(quick_model, rows, tmp_path, monkeypatch):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    trace = exporting._trace

    def damaged(backend, file, weights):
        trace(backend, file, weights)
        graph = onnx.load(file)
        [bias] = [tensor for tensor in graph.graph.initializer if tensor.name.endswith("classifier.bias")]
        bias.raw_data = np.array([0, 0, 0, 9], np.float32).tobytes()  # every reply becomes `history`
        onnx.save(graph, file)

    monkeypatch.setattr(exporting, "_trace", damaged)
    with pytest.raises(InputError, match="not kept, .*98% of the labels"):
        export_onnx(folder, "onnx", rows)
    assert list((folder / "onnx").iterdir()) == []
    assert "onnx" not in (folder / manifest.NAME).read_text(encoding="utf-8")


def test_the_command_exports_and_the_detector_runs_it(run, quick_model, sample_repo, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    code, out, err = run("export", folder, "--backend", "onnx", "--data", sample_repo)
    assert code == 0, err
    assert "model.onnx" in out and "labels agree 100.00%" in out
    code, out, err = run("detect", "--model", folder, "--text", json.dumps(CHAT), "--backend", "onnx")
    assert code == 0, err
    assert json.loads(out)["label"] == ContradictionDetector.from_pretrained(folder)(CHAT).label


def test_auto_takes_the_exported_file_where_a_package_can_run_it(exported, quick_model):
    fastest = "openvino" if find_spec("openvino") else "onnx"
    for model, options, name in (
        (exported, {}, fastest),
        (exported, {"precision": "fp16"}, "torch"),
        (exported, {"device": "meta"}, "torch"),
        (quick_model, {}, "torch"),
    ):
        assert fastest_backend(model, **{"device": "cpu", "precision": "fp32", **options}) == name


@pytest.mark.parametrize("batch_size", [1, 7, 32])
def test_batches_contain_each_input_once_with_little_padding(batch_size):
    lengths = np.random.default_rng(0).integers(5, 512, 500).tolist()
    made = list(batches(lengths, batch_size))
    assert sorted(index for batch in made for index in batch) == list(range(len(lengths)))
    for batch in made:
        longest = max(lengths[index] for index in batch)
        assert len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * longest <= TOKENS * batch_size
        if len(batch) > SMALL:
            assert sum(lengths[index] for index in batch) >= (1 - MOST_PADDING) * len(batch) * longest


def test_equal_inputs_run_once_and_are_each_counted(random_model, monkeypatch):
    backend = TorchBackend.load(random_model("4-class"))
    run, forward = [], backend.forward
    monkeypatch.setattr(backend, "forward", lambda batch: run.append(len(batch)) or forward(batch))
    inputs = [{"text": "甲", "text_pair": "乙"}, {"text": "甲乙丙丁", "text_pair": "丙"}] * 3
    done = []
    scores = backend.score(inputs, batch_size=2, on_batch=done.append)
    assert (run, done) == ([2], [6])
    np.testing.assert_array_equal(scores.logits[0], scores.logits[2])
    assert scores.truncations == [None] * 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "abacus"}, "'abacus'.*torch.*auto"),
        ({"precision": "int4"}, "'int4'.*fp32"),
        ({"precision": "fp16"}, "fp16 .*CPU; bf16"),
        ({"precision": "bf16"}, "no instructions for bf16"),
        ({"backend": "onnx"}, "has no onnx/model.onnx; `cdconv export .* --backend onnx` writes it"),
        ({"backend": "onnx", "precision": "bf16"}, "onnx has no bf16"),
        ({"backend": "onnx", "device": "cuda"}, "not on 'cuda'"),
    ],
)
def test_a_backend_or_precision_that_does_not_work_here_is_rejected(quick_model, monkeypatch, options, message):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"architecture": "x86_64", "avx512_bf16": False})
    with pytest.raises(InputError, match=message):
        ContradictionDetector.from_pretrained(quick_model, **{"device": "cpu", **options})


def test_bf16_changes_probabilities_slightly_and_labels_rarely(sample_chats, monkeypatch):
    monkeypatch.setattr(torch_backend, "has_bf16", lambda: True)  # a CPU without it computes bf16 slowly
    exact, fast = (
        ContradictionDetector.from_pretrained(SHIPPED, precision=precision).batch(sample_chats[:10])
        for precision in ("fp32", "bf16")
    )
    both = list(zip(exact, fast, strict=True))
    moved = [max(abs(one.scores[name] - other.scores[name]) for name in one.scores) for one, other in both]
    assert 0 < max(moved) < 0.1
    assert sum(one.label == other.label for one, other in both) >= 0.95 * len(both)


@pytest.mark.parametrize(
    ("cpu", "backend", "given", "chosen"),
    [
        ({"architecture": "x86_64", "amx_bf16": True}, "torch", "auto", "bf16"),
        ({"architecture": "x86_64", "avx512_bf16": True}, "onnx", "auto", "fp32"),
        ({"architecture": "x86_64"}, "torch", "auto", "fp32"),
        ({"architecture": "aarch64"}, "torch", "auto", "fp32"),
        ({"architecture": "x86_64", "avx512_bf16": True}, "torch", "fp32", "fp32"),
    ],
)
def test_the_default_precision_is_the_fastest_of_the_cpu(monkeypatch, cpu, backend, given, chosen):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: cpu)
    monkeypatch.delenv("CDCONV_PRECISION")
    assert chosen_precision("some/model", given, backend, "cpu") == chosen
    monkeypatch.setenv("CDCONV_PRECISION", "fp32")
    assert chosen_precision("some/model", given, backend, "cpu") == "fp32"
    monkeypatch.setenv("CDCONV_PRECISION", "int3")
    with pytest.raises(InputError, match="'int3'"):
        chosen_precision("some/model", "auto", backend, "cpu")


@pytest.mark.parametrize(
    ("marker", "device", "chosen"),
    [("decoder.json", "cuda:1", "bf16"), ("decoder.json", "cuda:0", "fp32"), ("config.json", "cuda:1", "fp32")],
)
def test_a_causal_detector_or_part_computes_in_bf16_on_a_gpu_that_can(marker, device, chosen, monkeypatch, tmp_path):
    monkeypatch.delenv("CDCONV_PRECISION")
    monkeypatch.setattr("contradiction.methods.loading.check_device", lambda device: None)
    monkeypatch.setattr("torch.cuda.get_device_capability", {"cuda:0": (7, 5), "cuda:1": (9, 0)}.__getitem__)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / marker).write_text("{}", encoding="utf-8")
    (tmp_path / "ensemble.json").write_text('{"members": ["part"]}', encoding="utf-8")
    for model in (tmp_path, tmp_path / "part"):
        assert chosen_precision(model, "auto", "torch", device) == chosen
        monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"architecture": "x86_64", "amx_bf16": True})
        assert chosen_precision(model, "auto", "auto", "cpu") == ("bf16" if marker == "decoder.json" else "fp32")


def test_the_commands_say_once_that_they_compute_in_bf16(run, quick_model, monkeypatch, tmp_path):
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"architecture": "x86_64", "avx512_bf16": True})
    monkeypatch.delenv("CDCONV_PRECISION")
    asked = ["detect", "--model", quick_model, "--text", json.dumps(CHAT)]
    assert run(*asked)[2].count("computes in bf16") == 1
    for options in (["--precision", "bf16"], ["--precision", "fp32"], ["--quiet"], ["--model", tmp_path]):
        assert "computes in" not in run(*asked, *options)[2]


# Exported weights: half the bytes, the same verdicts.


@pytest.fixture(scope="module")
def halved(quick_model, tmp_path_factory):
    return export(quick_model, tmp_path_factory.mktemp("export") / "half")


def test_weights_are_halved_and_the_facade_judges_the_same(halved, quick_model, sample_chats):
    assert (halved / WEIGHTS).stat().st_size < 0.55 * (quick_model / WEIGHTS).stat().st_size
    assert {path.name for path in halved.iterdir()} == {path.name for path in quick_model.iterdir()}
    detector = ContradictionDetector.from_pretrained(halved)
    assert {parameter.dtype for parameter in detector.classifier.backend.model.parameters()} == {torch.float32}
    before = ContradictionDetector.from_pretrained(quick_model).batch(sample_chats[:40])
    for one, other in zip(before, detector.batch(sample_chats[:40]), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=2e-3)


def test_transformers_4_knows_the_tokenizer_of_an_exported_model_and_it_reads_the_same_tokens(
    halved, quick_model, replies
):
    config = read_json(halved / TOKENIZER_CONFIG)
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert not {"backend", "is_local", "local_files_only"} & config.keys()
    before, after = (AutoTokenizer.from_pretrained(folder) for folder in (quick_model, halved))
    assert before(replies, replies[::-1])["input_ids"] == after(replies, replies[::-1])["input_ids"]


def test_the_command_says_what_it_wrote_and_which_options_fit_together(run, quick_model, tmp_path):
    out = tmp_path / "half"
    code, printed, _ = run("export", quick_model, "--out", out)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    assert (code, printed) == (0, f"{out}: {size / 1e6:.1f} MB\n")
    for options, why in (
        (["--backend", "onnx", "--out", tmp_path / "other"], "only for --backend torch"),
        ([], "--backend torch needs --out"),
    ):
        code, _, err = run("export", quick_model, *options)
        assert code == 2 and why in err
    assert [*tmp_path.iterdir()] == [out]


def test_with_a_calibrated_head_transformers_gives_the_calibrated_probabilities(quick_model, sample_rows, tmp_path):
    model = shutil.copytree(quick_model, tmp_path / "model")
    rule = Rule(0.8, {INTRA: 0.5, ROLE: -0.4, HISTORY: -0.6}, threshold=0.4)
    config = read_json(model / "config.json")
    id2label = dict(reversed(config["id2label"].items()))  # the ids count, not the order of the file
    write_json(model / "config.json", config | {"id2label": id2label})
    save_rule(model, rule)
    before = [prediction.scores for prediction in CheckpointClassifier.load(model).predict(sample_rows)]
    out = export(model, tmp_path / "out", calibrate_head=True)
    classifier = CheckpointClassifier.load(out)
    assert classifier.rule == replace(rule, temperature=1.0, biases={})
    assert [prediction.scores for prediction in classifier.predict(sample_rows)] == [
        pytest.approx(probabilities, abs=2e-3) for probabilities in before
    ]
    classify = pipeline("text-classification", model=str(out), top_k=None, dtype=torch.float32)
    answers = classify([classifier.model_input(row) for row in sample_rows])
    assert [{score["label"]: score["score"] for score in scores} for scores in answers] == [
        pytest.approx(probabilities, abs=2e-3) for probabilities in before
    ]
    uncalibrated = pipeline("text-classification", model=str(model), top_k=None)(classifier.model_input(sample_rows[0]))
    assert {score["label"]: score["score"] for score in uncalibrated} != pytest.approx(before[0], abs=0.05)


def test_a_model_that_cannot_be_exported_is_rejected(quick_model, halved, tmp_path):
    with pytest.raises(InputError, match="exists already"):
        export(quick_model, halved)
    with pytest.raises(InputError, match="name a folder outside"):
        export(halved, halved / "half")
    assert not (halved / "half").exists()
    with pytest.raises(InputError, match="holds no finished model"):
        export(tmp_path, tmp_path / "out")
    model = shutil.copytree(quick_model, tmp_path / "model")
    save_rule(model, Rule(1.0, {INTRA: 0.0}))
    with pytest.raises(InputError, match=f"{model}: nothing to move"):
        export(model, tmp_path / "out", calibrate_head=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_weight_too_large_for_fp16_is_named_and_nothing_is_left(quick_model, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(quick_model, model)
    fill("classifier.bias", 1e6)(model)
    (model / manifest.NAME).unlink()
    with pytest.raises(InputError, match="classifier.bias does not fit fp16"):
        export(model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
