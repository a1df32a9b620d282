"""The backends of ONNX Runtime: run the files that ``cdconv export --backend`` writes beside the weights, on a CPU."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.base import Backend, check_precision, register
from contradiction.io import manifest
from contradiction.io.hub import fetch_file
from contradiction.io.pretrained import check_tokenizer, load_config, load_tokenizer, loading

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from transformers import PreTrainedTokenizerBase

WEIGHTS = "model.safetensors"
# What an exported file says about itself.
MAX_LENGTH, MADE_FROM = "cdconv_max_length", "cdconv_weights_sha256"


@register
class OnnxBackend(Backend):
    """A checkpoint in float32 that ONNX Runtime runs on a CPU.

    Args:
        session: the loaded file; it names the inputs as the tokenizer does, and its first output is the logits.
        config: what the ``config.json`` of the checkpoint says.
        tokenizer: the tokenizer of the checkpoint.

    Attributes:
        FILE: the file in the model folder, under the name that transformers.js and sentence-transformers use.
    """

    NAME = "onnx"
    FILE: ClassVar[str] = "onnx/model.onnx"

    def __init__(
        self, session: "InferenceSession", config: Mapping[str, Any], tokenizer: "PreTrainedTokenizerBase"
    ) -> None:
        self.session, self.config, self.tokenizer = session, config, tokenizer
        said = session.get_modelmeta().custom_metadata_map.get(MAX_LENGTH)
        self.max_length = int(said or tokenizer.model_max_length)
        self._inputs = [given.name for given in session.get_inputs()]

    @classmethod
    def load(cls, name: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads an exported file and the tokenizer; see :meth:`Backend.load`.

        Raises:
            InputError: also where the model has no such file, or the file was made from other weights.
        """
        if check_precision(precision) != "fp32":
            raise InputError(f"{name}: the backend {cls.NAME} has no {precision}; the backend torch has it")
        if device not in (None, "cpu"):
            raise InputError(f"{name}: the backend {cls.NAME} runs on the CPU, not on {device!r}")
        check_installed("onnxruntime")
        with loading(name, f"{name}: neither a model folder nor a model on the Hub that can be reached"):
            file = Path(name) / cls.FILE if Path(name).is_dir() else fetch_file(str(name), cls.FILE)
            if file is None or not file.is_file():
                raise InputError(f"{name}: has no {cls.FILE}; `cdconv export {name} --backend {cls.NAME}` writes it")
            config, tokenizer = load_config(name).to_dict(), load_tokenizer(name)
            check_tokenizer(str(name), tokenizer, config.get("vocab_size"))
            loaded = cls(open_session(file), {**config, "id2label": config.get("id2label") or {}}, tokenizer)
            loaded.score([{"text": "你好", "text_pair": "你好"}])
        return loaded

    def forward(self, batch: Sequence[Mapping[str, list[int]]]) -> np.ndarray:
        """Runs one batch; see :meth:`Backend.forward`."""
        padded = self.tokenizer.pad([dict(one) for one in batch], return_tensors="np")
        [logits, *_] = self.session.run(None, {name: padded[name].astype(np.int64) for name in self._inputs})
        return np.asarray(logits, np.float32)


@register
class QuantizedOnnxBackend(OnnxBackend):
    """The same with most of the linear layers in 8 bits."""

    NAME = "onnx-int8"
    FILE = "onnx/model_quantized.onnx"


def check_installed(package: str) -> None:
    """Raises InputError where a package of the extra ``onnx`` is missing."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise InputError(f'ONNX needs {package}: pip install "cdconv[onnx]"')


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_session(file: Path) -> "InferenceSession":
    """Opens a file; raises InputError where it is damaged, or was made from other weights than those beside it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = cores(), 3
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of ONNX Runtime, which has a class for each status
        raise InputError(f"{file}: ONNX Runtime cannot read it ({first_line(error)}); export it again") from error
    weights = file.parent.parent / WEIGHTS
    made_from = session.get_modelmeta().custom_metadata_map.get(MADE_FROM)
    if made_from and weights.is_file() and manifest.sha256(weights) != made_from:
        raise InputError(f"{file}: was made from other weights than {weights}; export it again")
    return session
