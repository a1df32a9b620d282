"""Exports a model folder: in fp16, merged with its base, or as files for ONNX Runtime that are checked."""

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from contradiction.decision import Rule, decide
from contradiction.decoder.trees import CHAT_TEMPLATE
from contradiction.errors import InputError
from contradiction.inference.base import Backend
from contradiction.inference.onnx_backend import MADE_FROM, MAX_LENGTH, OnnxBackend, OpenVinoBackend
from contradiction.inference.torch_backend import TorchBackend
from contradiction.inputs.views import VIEW_KEY, Row
from contradiction.io import manifest
from contradiction.io.environment import check_installed
from contradiction.io.files import check_new, new_file, new_folder, read_json, write_json
from contradiction.io.pretrained import WEIGHTS, load_weights
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.decoder import DecoderClassifier
from contradiction.methods.loading import method_of, parts_of, save_rule
from contradiction.training import record

if TYPE_CHECKING:
    from torch import Tensor

HEADS = ("classifier", "classifier.out_proj")  # the last layer of BERT and of RoBERTa in transformers


def export(model: str | Path, out: str | Path, *, calibrate_head: bool = False) -> Path:
    """Copies a model folder and converts the weights of all its checkpoints to fp16.

    A causal detector is merged with its base, into a classifier that transformers loads and that judges the last reply
    of a chat. It has no decision rule; the chat template of its tokenizer writes a chat for it.

    Args:
        model: a folder that training wrote; the copy has its record and decision rule.
        out: the folder to write.
        calibrate_head: whether the temperature and the biases of the decision rule become part of the head, so that
            `transformers` alone gives calibrated probabilities. Only for a single checkpoint.

    Returns:
        ``out``.

    Raises:
        InputError: the folder holds no finished model in safetensors, or a damaged one, ``out`` exists or is inside the
            folder, a weight is out of the range of fp16, or there is no head to calibrate.
    """
    model, out = Path(model), Path(out)
    if calibrate_head and method_of(model) is not CheckpointClassifier:
        raise InputError(f"{model}: --calibrate-head is only for a single checkpoint")
    if method_of(model) is DecoderClassifier:
        return _merge(model, out)
    files = [part / name for part in parts_of(model) for name in method_of(part).WEIGHTS if (part / name).is_file()]
    if not files or not record.read(model).get("parameters"):
        raise InputError(f"{model}: holds no finished model; `cdconv train` writes one")
    check_new(out, [model])
    for part in parts_of(model):
        manifest.check(part)  # the copy gets a manifest of its own
    with new_folder(out) as folder:
        # Exported files hold the original weights.
        shutil.copytree(model, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("onnx"))
        for part in folder.rglob(manifest.NAME):
            manifest.forget(part.parent, "onnx/")
        for file in files:
            _convert(file, folder / file.parent.relative_to(model), calibrate_head)
    return out


def _merge(model: Path, out: Path) -> Path:
    check_new(out, [model])
    manifest.check(model)
    detector = DecoderClassifier.load(model)
    merged, tokenizer = detector.network.as_classifier(), detector.reader.tokenizer
    merged.config.id2label = dict(enumerate(detector.labels))
    merged.config.label2id = {label: number for number, label in enumerate(detector.labels)}
    merged.config.pad_token_id = tokenizer.pad_token_id
    if not all(weight.half().isfinite().all() for weight in merged.parameters()):
        raise InputError(f"{model}: its weights do not fit fp16")
    tokenizer.chat_template = CHAT_TEMPLATE
    with new_folder(out) as folder:
        merged.half().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        write_json(folder / "config.json", read_json(folder / "config.json") | {"dtype": "float32"})
    return out


def _convert(file: Path, folder: Path, calibrate_head: bool) -> None:
    """Writes the weights of a file to the folder in fp16, and the checksums of what has changed there."""
    from safetensors.torch import save_file

    weights = load_weights(file)
    if calibrate_head:
        _calibrate_head(file, folder, weights)
    weights = {name: weight.half() if weight.is_floating_point() else weight for name, weight in weights.items()}
    if infinite := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        raise InputError(f"{file}: {infinite[0]} does not fit fp16")
    save_file(weights, folder / file.name, metadata={"format": "pt"})
    if file.name == WEIGHTS:
        # The dtype to compute in, which `pipeline` follows: in fp16 a CPU is slow, and a GPU less exact.
        write_json(folder / "config.json", read_json(folder / "config.json") | {"dtype": "float32"})
        manifest.update(folder, "config.json")
    manifest.update(folder, file.name)


def _calibrate_head(file: Path, folder: Path, weights: dict[str, "Tensor"]) -> None:
    """Moves the temperature and the biases of a rule into the last layer of the head, in ``weights`` and ``folder``."""
    head = next((name for name in HEADS if f"{name}.bias" in weights), None)
    if head is None:
        raise InputError(f"{file}: --calibrate-head finds none of the layers {', '.join(HEADS)}")
    rule = Rule.load(folder / "config.json")
    if not rule.calibrates:
        raise InputError(f"{file.parent}: its decision rule has no calibration to move into the head")
    names = read_json(folder / "config.json")["id2label"]
    labels = [names[index] for index in sorted(names, key=int)]
    weight, bias = weights[f"{head}.weight"].double(), weights[f"{head}.bias"].double()
    weights[f"{head}.weight"] = weight / rule.temperature
    weights[f"{head}.bias"] = bias / rule.temperature + bias.new_tensor(rule.biases_of(labels))
    save_rule(folder, replace(rule, temperature=1.0, biases={}))


MOST_LOST = 0.5  # the most points of macro-F1 that a file may lose on validation
LEAST_AGREEMENT = 0.98  # the least share of equal labels, where there are no validation rows
OPSET = 17


@dataclass(frozen=True)
class Comparison:
    """An exported file compared with PyTorch, on the same rows.

    Attributes:
        file: the exported file.
        rows: the number of rows.
        gap: the largest difference of a logit.
        agreement: the share of rows with the same label by the decision rule.
        torch_f1: macro-F1 of PyTorch in points; None where the rows have no labels of the model.
        onnx_f1: the same of the exported file.
    """

    file: Path
    rows: int
    gap: float
    agreement: float
    torch_f1: float | None = None
    onnx_f1: float | None = None

    def __str__(self) -> str:
        scores = "" if self.torch_f1 is None else f", macro-F1 {self.onnx_f1:.2f} (torch {self.torch_f1:.2f})"
        return f"{self.rows:,} rows: largest logit gap {self.gap:.2g}, labels agree {self.agreement:.2%}{scores}"

    def why_refused(self) -> str | None:
        """Why the file is not good enough, in words; None if it is."""
        if self.torch_f1 is not None and self.onnx_f1 is not None:
            lost = self.torch_f1 - self.onnx_f1
            return f"it loses {lost:.2f} points of macro-F1, more than {MOST_LOST}" if lost > MOST_LOST else None
        return f"fewer than {LEAST_AGREEMENT:.0%} of the labels agree" if self.agreement < LEAST_AGREEMENT else None


def export_onnx(
    model: str | Path, backend: str, rows: Sequence[Row], labels: Sequence[str] | None = None
) -> list[Comparison]:
    """Writes the ONNX file of each checkpoint in a model folder beside its weights, and into its manifest.

    Args:
        model: a model folder.
        backend: ``onnx``, or ``openvino``, which runs the file of ``onnx``.
        rows: the rows to compare with PyTorch on.
        labels: the label of each row by name, for macro-F1. Without them, and for the single stages of the
            hierarchical method, only labels are compared.

    Returns:
        The comparison with PyTorch of each file.

    Raises:
        InputError: the folder holds no checkpoint, a checkpoint reads other columns than the rows have, a package is
            missing, or a file loses more than ``MOST_LOST`` points or changes too many labels. Such a file is removed.
    """
    kinds: dict[str, type[OnnxBackend]] = {kind.NAME: kind for kind in (OnnxBackend, OpenVinoBackend)}
    if backend not in kinds:
        raise InputError(f"backend {backend!r}; allowed are {', '.join(kinds)}")
    check_installed(f"the export for {backend}", {"onnx": "onnx", "onnxruntime": "onnx", **kinds[backend].PACKAGES})
    folders = [part for part in parts_of(model) if method_of(part) is CheckpointClassifier]
    for folder in folders:
        if not (folder / WEIGHTS).is_file():
            raise InputError(f"{folder}: no {WEIGHTS} to export")
    if not folders:
        raise InputError(f"{model}: holds no fine-tuned checkpoint, so there is nothing to export")
    return [_export(folder, kinds[backend], rows, labels) for folder in folders]


def _export(folder: Path, kind: type[OnnxBackend], rows: Sequence[Row], labels: Sequence[str] | None) -> Comparison:
    exact = CheckpointClassifier.load(folder, device="cpu")
    if missing := [column for column in exact.columns if rows and column not in rows[0]]:
        raise InputError(f"{folder}: reads {', '.join(missing)}, which the rows lack; --data names a repo that has it")
    assert isinstance(exact.backend, TorchBackend)
    file = folder / kind.FILE
    with new_file(file) as partial:
        _trace(exact.backend, partial, folder / WEIGHTS)
        made = kind(kind.open(partial), exact.backend.config, exact.backend.tokenizer)
        compared = compare(exact, made, rows, labels, file)
        if reason := compared.why_refused():
            raise InputError(f"{file}: not kept, because {reason} ({compared})")
    manifest.update(folder, kind.FILE)
    return compared


def compare(
    exact: CheckpointClassifier, backend: Backend, rows: Sequence[Row], labels: Sequence[str] | None, file: Path
) -> Comparison:
    """Compares another backend with that of a classifier, on the same rows."""
    from sklearn.metrics import f1_score

    exported = CheckpointClassifier(backend, str(exact.backend.config[VIEW_KEY]), exact.name, exact.rule)
    logits = [classifier.score(rows).logits for classifier in (exact, exported)]
    probabilities = [exact.rule.calibrate(scores, exact.labels).tolist() for scores in logits]
    decided = [
        [decide(dict(zip(exact.labels, row, strict=True)), exact.rule.threshold, exact.contradictions) for row in table]
        for table in probabilities
    ]
    gap = float(np.abs(logits[0] - logits[1]).max())
    agreement = float(np.mean([one == other for one, other in zip(*decided, strict=True)]))
    if labels is None or not set(labels) <= set(exact.labels):
        return Comparison(file, len(rows), gap, agreement)
    before, after = (100 * f1_score(labels, predicted, labels=exact.labels, average="macro") for predicted in decided)
    return Comparison(file, len(rows), gap, agreement, float(before), float(after))


def _trace(backend: TorchBackend, file: Path, weights: Path) -> None:
    """Writes a checkpoint as ONNX in float32, with the checksum of the weights that it was made from."""
    import onnx
    import torch

    pairs = [("你好", "你好"), ("你好吗？", "很好，谢谢你。")]  # of two lengths, so that there is padding
    firsts, seconds = ([pair[side] for pair in pairs] for side in (0, 1))
    example = backend.tokenizer(firsts, seconds, padding=True, return_tensors="pt")
    names = list(example)

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = backend.model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(**dict(zip(names, tensors, strict=True))).logits
            return logits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of fixed shapes, and that this exporter is the older one
        torch.onnx.export(
            Logits().eval(),
            tuple(example[name] for name in names),
            str(file),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in names} | {"logits": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,  # the newer exporter takes ten times as long, and gives the same logits
        )
    graph = onnx.load(file)
    for key, value in ((MAX_LENGTH, str(backend.max_length)), (MADE_FROM, manifest.sha256(weights))):
        graph.metadata_props.add(key=key, value=value)
    onnx.save(graph, file)
