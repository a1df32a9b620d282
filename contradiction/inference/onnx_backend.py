"""The backends of ONNX Runtime and OpenVINO: run the file that ``cdconv export --backend`` writes, on a CPU."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.base import Backend, register, threads
from contradiction.inference.torch_backend import PROBE, check_fast_enough
from contradiction.io import manifest
from contradiction.io.environment import check_installed
from contradiction.io.hub import fetch_file
from contradiction.io.pretrained import WEIGHTS, check_tokenizer, load_without_torch, loading

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# What an exported file says about itself: how many tokens the model reads, and of which weights it is.
MAX_LENGTH, MADE_FROM = "cdconv_max_length", "cdconv_weights_sha256"


@dataclass(frozen=True)
class Session:
    """An exported file that is open."""

    metadata: Mapping[str, str]  # what the file says about itself
    inputs: list[str]  # their names
    run: Callable[[dict[str, np.ndarray]], np.ndarray]  # from the inputs by name to the logits; from any thread


@register
class OnnxBackend(Backend):
    """A checkpoint in float32 that ONNX Runtime runs on a CPU.

    Args:
        session: the open file; it names the inputs as the tokenizer does.
        config: what the ``config.json`` of the checkpoint says.
        tokenizer: the tokenizer of the checkpoint.
    """

    NAME = "onnx"
    FILE: ClassVar[str] = "onnx/model.onnx"  # the name that transformers.js and sentence-transformers use
    PACKAGES: ClassVar[Mapping[str, str]] = {"onnxruntime": "onnx"}  # each with the extra that installs it
    PRECISIONS: ClassVar[tuple[str, ...]] = ("fp32",)

    def __init__(self, session: Session, config: Mapping[str, Any], tokenizer: "PreTrainedTokenizerBase") -> None:
        self.session, self.config, self.tokenizer = session, config, tokenizer
        self.max_length = int(session.metadata.get(MAX_LENGTH) or tokenizer.model_max_length)

    @classmethod
    def load(cls, name: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads an exported file and the tokenizer; see :meth:`Backend.load`."""
        if precision not in cls.PRECISIONS:
            raise InputError(f"{name}: the backend {cls.NAME} has no {precision}; the backend torch has it")
        if device not in (None, "cpu"):
            raise InputError(f"{name}: the backend {cls.NAME} runs on the CPU, not on {device!r}")
        check_installed(f"the backend {cls.NAME}", cls.PACKAGES)
        with loading(name):
            file = fetch_file(name, cls.FILE)
            if file is None:
                raise InputError(f"{name}: has no {cls.FILE}; `cdconv export {name} --backend {cls.NAME}` writes it")
            config, tokenizer = load_without_torch(name)
            check_tokenizer(str(name), tokenizer, config.get("vocab_size"))
            session = cls.open(file, precision)
            weights, made_from = file.parent.parent / WEIGHTS, session.metadata.get(MADE_FROM)
            if made_from and weights.is_file() and manifest.sha256(weights) != made_from:
                raise InputError(f"{file}: was made from other weights than {weights}; export it again")
            loaded = cls(session, {**config, "id2label": config.get("id2label") or {}}, tokenizer)
            loaded.score(PROBE)
        return loaded

    @classmethod
    def open(cls, file: Path, precision: str = "fp32") -> Session:
        """Opens a file; raises InputError where it is damaged."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads(), 3
        try:
            opened = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has a class of error for each status
            raise InputError(f"{file}: ONNX Runtime cannot read it ({first_line(error)}); export it again") from error
        inputs = [node.name for node in opened.get_inputs()]
        return Session(opened.get_modelmeta().custom_metadata_map, inputs, lambda batch: opened.run(None, batch)[0])

    def forward(self, batch: Sequence[Mapping[str, list[int]]]) -> np.ndarray:
        """Runs one batch; see :meth:`Backend.forward`."""
        padded = self.tokenizer.pad([dict(encoding) for encoding in batch])
        logits = self.session.run({name: np.array(padded[name], np.int64) for name in self.session.inputs})
        return np.asarray(logits, np.float32)


@register
class OpenVinoBackend(OnnxBackend):
    """A checkpoint that OpenVINO runs on a CPU, from the file of the backend ``onnx``."""

    NAME = "openvino"
    PACKAGES = {"openvino": "openvino"}
    PRECISIONS = ("fp32", "bf16")

    @classmethod
    def open(cls, file: Path, precision: str = "fp32") -> Session:
        """Opens a file; see :meth:`OnnxBackend.open`."""
        # Without the telemetry package, which would report the import over the network: None blocks its import.
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
        import openvino

        check_fast_enough(precision, "cpu", str(file))
        options = {
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision],
            "INFERENCE_NUM_THREADS": threads(),
            "PERFORMANCE_HINT": "LATENCY",  # one batch at a time, on all threads
        }
        core = openvino.Core()
        try:
            model = core.read_model(file)
            request = core.compile_model(model, "CPU", options).create_infer_request()
        except RuntimeError as error:
            raise InputError(f"{file}: OpenVINO cannot read it ({first_line(error)}); export it again") from error
        lock = Lock()  # a request runs one batch at a time

        def run(batch: dict[str, np.ndarray]) -> np.ndarray:
            with lock:
                return request.infer(batch)[0].copy()

        framework = dict(model.get_rt_info().items()).get("framework", {})  # the metadata of an ONNX file
        metadata = {name: value.value for name, value in framework.items()}
        return Session(metadata, [node.get_any_name() for node in model.inputs], run)
