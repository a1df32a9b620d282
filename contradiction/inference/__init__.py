"""Runs encoders: one interface (``base``), one file for each backend.

To add a backend, write its file and import it here. A package of its own names its module in the group of entry points
``contradiction.backends``.
"""

from importlib.metadata import entry_points

from contradiction.inference import onnx_backend, torch_backend  # noqa: F401  # they register themselves

for plugin in entry_points(group="contradiction.backends"):
    plugin.load()
