"""The backend of OpenVINO: runs the file of the backend ``onnx`` on a CPU, in float32 or bfloat16."""

import sys
from pathlib import Path
from threading import Lock
from types import ModuleType

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.base import register, threads
from contradiction.inference.onnx_backend import OnnxBackend, Session
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
    def _open(cls, file: Path, precision: str) -> Session:
        check_fast_enough(precision, "cpu", str(file))
        options = {
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[precision],
            "INFERENCE_NUM_THREADS": threads(),
            "PERFORMANCE_HINT": "LATENCY",  # one batch at a time, on all threads
        }
        core = _import().Core()
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


def _import() -> ModuleType:
    """Imports OpenVINO without its telemetry package, which would report the import over the network."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None blocks the import
    import openvino

    return openvino
