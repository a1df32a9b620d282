"""Runs encoders: one interface (``base``), one file for each backend, and the choice of the backend.

``network`` is the network of a causal detector.

To add a backend, write its file and import it here. A package of its own names its module in the group of entry points
``contradiction.backends``.
"""

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from contradiction.errors import InputError
from contradiction.inference.onnx_backend import OnnxBackend, OpenVinoBackend
from contradiction.inference.torch_backend import TorchBackend, best_device
from contradiction.io.hub import fetch_file

for plugin in entry_points(group="contradiction.backends"):
    plugin.load()


def fastest_backend(name: str | Path, *, device: str | None, precision: str) -> str:
    """The fastest backend that gives the verdicts of PyTorch.

    That is ``openvino``, or else ``onnx``, on a CPU in fp32, if the package is installed and the model has the file. It
    is ``torch`` elsewhere.
    """
    installed = [kind.NAME for kind in (OpenVinoBackend, OnnxBackend) if all(map(find_spec, kind.PACKAGES))]
    if installed and find_spec("torch") is None:
        return installed[0]
    if not installed or precision != "fp32" or (device or best_device()) != "cpu":
        return TorchBackend.NAME
    try:
        return installed[0] if fetch_file(name, OnnxBackend.FILE) else TorchBackend.NAME
    except InputError:  # the Hub cannot say whether the model has the file
        return TorchBackend.NAME
