"""Runs encoders: one interface (``base``), one file for each backend.

To add a backend, write its file and import it here.
"""

from contradiction.inference import torch_backend  # noqa: F401  # registers itself
