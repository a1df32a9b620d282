"""The backend of OpenVINO: runs the file of the backend ``onnx`` on a CPU, in float32 or bfloat16."""

import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from types import ModuleType

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.base import register, threads
from contradiction.inference.onnx_backend import OnnxBackend, Session, check_origin
from contradiction.inference.torch_backend import check_fast_enough


@register
class OpenVinoBackend(OnnxBackend):
    """A checkpoint that OpenVINO runs on a CPU, from the file of the backend ``onnx``."""

    NAME = "openvino"
    PACKAGES = {"openvino": "openvino"}
    PRECISIONS = ("fp32", "bf16")

    @classmethod
    def version(cls) -> str:
        """See :meth:`OnnxBackend.version`."""
        return _import().__version__

    @classmethod
    def open(cls, file: Path, precision: str = "fp32") -> Session:
        """Opens a file; see :meth:`OnnxBackend.open`."""
        check_fast_enough(precision, "cpu", str(file))
        return check_origin(file, OpenVinoSession(file, precision))


class OpenVinoSession:
    """A file that OpenVINO has compiled; see :class:`contradiction.inference.onnx_backend.Session`."""

    def __init__(self, file: Path, precision: str) -> None:
        openvino = _import()
        options = {
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision],
            "INFERENCE_NUM_THREADS": threads(),
            "PERFORMANCE_HINT": "LATENCY",  # one batch at a time, on all threads
        }
        core = openvino.Core()
        try:
            model = core.read_model(file)
            self._request = core.compile_model(model, "CPU", options).create_infer_request()
        except RuntimeError as error:
            raise InputError(f"{file}: OpenVINO cannot read it ({first_line(error)}); export it again") from error
        framework = dict(model.get_rt_info().items()).get("framework", {})  # the metadata of an ONNX file
        self.metadata: Mapping[str, str] = {name: value.value for name, value in framework.items()}
        self.inputs = [node.get_any_name() for node in model.inputs]
        self._lock = Lock()  # a request runs one batch at a time

    def run(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        """See :meth:`Session.run`."""
        with self._lock:
            return self._request.infer(inputs)[0].copy()


def _import() -> ModuleType:
    """Imports OpenVINO without its telemetry package, which would report the import over the network."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None blocks the import
    import openvino

    return openvino
