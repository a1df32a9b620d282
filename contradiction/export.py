"""Exports a model folder: in fp16, merged with its base, or as files for ONNX Runtime that are checked."""

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contradiction.conversation import alternating
from contradiction.decision import Rule
from contradiction.errors import InputError, check_known
from contradiction.inference.onnx_backend import MADE_FROM, MAX_LENGTH, OnnxBackend, OpenVinoBackend
from contradiction.inputs.trees import CHAT_TEMPLATE, END, ChatReader
from contradiction.inputs.views import Row
from contradiction.io import manifest
from contradiction.io.environment import check_installed
from contradiction.io.files import check_new, new_file, new_folder, read_json, write_json
from contradiction.io.hub import CONFIG
from contradiction.io.pretrained import WEIGHTS, load_weights, make_tokenizer_portable
from contradiction.methods.checkpoint import MERGED_KEY, CheckpointClassifier
from contradiction.methods.decoder import MAX_TOKENS, DecoderClassifier
from contradiction.methods.loading import method_of, parts_of, save_rule, write_manifests
from contradiction.training import record

if TYPE_CHECKING:
    from torch import Tensor

    from contradiction.inference.torch_backend import TorchBackend

HEADS = ("classifier", "classifier.out_proj")  # the last layer of BERT and of RoBERTa in transformers


def export(model: str | Path, out: str | Path, *, calibrate_head: bool = False) -> Path:
    """Copies a model folder that training wrote to ``out``, and converts the weights of all its checkpoints to fp16.

    A causal detector is merged with its base, into a classifier that transformers loads and that judges the last reply
    of a chat. It has no decision rule; the chat template of its tokenizer writes a chat for it.

    With ``calibrate_head``, only for a single checkpoint, the temperature and the biases of the decision rule become
    part of the head, so that `transformers` alone gives calibrated probabilities.

    Raises:
        InputError: the folder holds no finished model in safetensors, or a damaged one, ``out`` exists or is inside the
            folder, a weight is out of the range of fp16, or there is no head to calibrate.
    """
    model, out = Path(model), Path(out)
    if calibrate_head and method_of(model) is not CheckpointClassifier:
        raise InputError(f"{model}: --calibrate-head is only for a single checkpoint")
    if method_of(model) is DecoderClassifier:
        return _merge(model, out)
    files = [part / WEIGHTS for part in parts_of(model) if (part / WEIGHTS).is_file()]
    if not files or not record.read(model).get("parameters"):
        raise InputError(f"{model}: holds no finished model; `cdconv train` writes one")
    check_new(out, [model])
    for part in parts_of(model):
        manifest.check(part)
    with new_folder(out) as folder:
        # Exported files hold the original weights, and the copy gets manifests of its own.
        shutil.copytree(model, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("onnx", manifest.NAME))
        for file in files:
            part = folder / file.parent.relative_to(model)
            _convert(file, part, calibrate_head)
            make_tokenizer_portable(part)
        write_manifests(folder)
    return out


def _merge(model: Path, out: Path) -> Path:
    check_new(out, [model])
    manifest.check(model)
    detector = DecoderClassifier.load(model, device="cpu")
    merged, tokenizer = detector.network.as_classifier(), detector.reader.tokenizer
    # The label is read at the last token that is not padding, which is the mark at the end of the reply.
    others = (tokenizer.pad_token, tokenizer.unk_token, tokenizer.bos_token, tokenizer.eos_token)
    padding = next((token for token in others if token not in (None, END)), None)
    if padding is None:
        raise InputError(f"{model}: the tokenizer of its base has no token for padding besides {END}")
    tokenizer.pad_token = padding
    # Of a long chat, the end is read.
    tokenizer.truncation_side, tokenizer.model_max_length = "left", MAX_TOKENS
    merged.config.id2label = dict(enumerate(detector.labels))
    merged.config.label2id = {label: number for number, label in enumerate(detector.labels)}
    merged.config.pad_token_id = tokenizer.pad_token_id
    if not all(weight.half().isfinite().all() for weight in merged.parameters()):
        raise InputError(f"{model}: its weights do not fit fp16")
    tokenizer.chat_template = CHAT_TEMPLATE
    if not _reads_alike(detector.reader):
        tokenizer.add_bos_token = False  # that of Llama adds a token before the chat
        if not _reads_alike(detector.reader):
            raise InputError(f"{model}: with the tokenizer of its base, transformers reads other tokens of a chat")
    with new_folder(out) as folder:
        merged.half().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        make_tokenizer_portable(folder)
        write_json(folder / CONFIG, read_json(folder / CONFIG) | {"dtype": "float32", MERGED_KEY: True})
    return out


def _reads_alike(reader: ChatReader) -> bool:
    """Whether transformers reads the same tokens of a chat as a detector."""
    chat, tokenizer = alternating(["你好！", "你也好"]), reader.tokenizer
    given = tokenizer(str(tokenizer.apply_chat_template(chat, tokenize=False)))["input_ids"]
    return given == [token for message in chat for token in reader.message(message["role"], message["content"])]


def _convert(file: Path, folder: Path, calibrate_head: bool) -> None:
    """Writes the weights of a file to the folder in fp16."""
    from safetensors.torch import save_file

    weights = load_weights(file)
    if calibrate_head:
        _calibrate_head(file, folder, weights)
    weights = {name: weight.half() if weight.is_floating_point() else weight for name, weight in weights.items()}
    if infinite := [name for name, weight in weights.items() if not weight.isfinite().all()]:
        raise InputError(f"{file}: {infinite[0]} does not fit fp16")
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    # The dtype to compute in, which `pipeline` follows: in fp16 a CPU is slow, and a GPU less exact.
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {"dtype": "float32"})


def _calibrate_head(file: Path, folder: Path, weights: dict[str, "Tensor"]) -> None:
    """Moves the temperature and the biases of a rule into the last layer of the head, in ``weights`` and ``folder``."""
    head = next((name for name in HEADS if f"{name}.bias" in weights), None)
    if head is None:
        raise InputError(f"{file}: --calibrate-head finds none of the layers {', '.join(HEADS)}")
    rule = Rule.load(folder / CONFIG)
    if not rule.calibrates:
        raise InputError(f"{file.parent}: nothing to move: its head is calibrated already, or it has no decision rule")
    names = read_json(folder / CONFIG)["id2label"]
    labels = [names[index] for index in sorted(names, key=int)]
    weight, bias = weights[f"{head}.weight"].double(), weights[f"{head}.bias"].double()
    weights[f"{head}.weight"] = weight / rule.temperature
    weights[f"{head}.bias"] = bias / rule.temperature + bias.new_tensor(rule.biases_of(labels))
    save_rule(folder, replace(rule, temperature=1.0, biases={}))


LEAST_AGREEMENT = 0.98  # the least share of rows to which an exported file gives the label of PyTorch
OPSET = 17


@dataclass(frozen=True)
class Comparison:
    """An exported file compared with PyTorch, on the same rows."""

    file: Path
    rows: int
    gap: float  # the largest difference of a probability
    agreement: float  # the share of rows with the same label by the decision rule

    def __str__(self) -> str:
        return f"{self.rows:,} rows: labels agree {self.agreement:.2%}, largest gap of a probability {self.gap:.2g}"


def export_onnx(model: str | Path, backend: str, rows: Sequence[Row]) -> list[Comparison]:
    """Writes the ONNX file of each checkpoint in a model folder beside its weights, and into its manifest.

    The backend is ``onnx``, or ``openvino``, which runs the file of ``onnx``. Each file is compared with PyTorch on
    some rows.

    Raises:
        InputError: the folder holds no checkpoint, a checkpoint reads other columns than the rows have, a package is
            missing, or a file changes more than 2 % of the labels. Such a file is removed.
    """
    kinds: dict[str, type[OnnxBackend]] = {kind.NAME: kind for kind in (OnnxBackend, OpenVinoBackend)}
    check_known(backend, kinds, "backend")
    check_installed(f"the export for {backend}", {"onnx": "onnx", "onnxruntime": "onnx", **kinds[backend].PACKAGES})
    folders = [part for part in parts_of(model) if (part / WEIGHTS).is_file()]
    if not folders:
        raise InputError(f"{model}: holds no fine-tuned checkpoint ({WEIGHTS}), so there is nothing to export")
    return [_export(folder, kinds[backend], rows) for folder in folders]


def _export(folder: Path, kind: type[OnnxBackend], rows: Sequence[Row]) -> Comparison:
    exact = CheckpointClassifier.load(folder, device="cpu")
    if missing := [column for column in exact.columns if rows and column not in rows[0]]:
        raise InputError(f"{folder}: reads {', '.join(missing)}, which the rows lack; --data names a repo that has it")
    torch_backend: Any = exact.backend
    file = folder / kind.FILE
    with new_file(file) as partial:
        _trace(torch_backend, partial, folder / WEIGHTS)
        made = kind(kind.open(partial), torch_backend.config, torch_backend.tokenizer)
        both = [each.classify(rows) for each in (exact, CheckpointClassifier(made, exact.view, exact.name, exact.rule))]
        gaps = [abs(one.scores[name] - two.scores[name]) for one, two in zip(*both, strict=True) for name in one.scores]
        agreement = np.mean([one.label == two.label for one, two in zip(*both, strict=True)])
        compared = Comparison(file, len(rows), max(gaps), float(agreement))
        if agreement < LEAST_AGREEMENT:
            raise InputError(
                f"{file}: not kept, because fewer than {LEAST_AGREEMENT:.0%} of the labels agree ({compared})"
            )
    manifest.update(folder, kind.FILE)
    return compared


def _trace(backend: "TorchBackend", file: Path, weights: Path) -> None:
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
