"""Runs encoders: one interface (``base``), one file for each backend.

To add a backend, write its file and import it here.
"""

from contradiction.inference import onnx_backend, openvino_backend, torch_backend  # noqa: F401  # they register themselves
