"""The error for a missing package."""

import sys

import pytest

from contradiction.errors import InputError
from contradiction.io.environment import check_installed


def test_missing_packages_are_named_with_the_extras_that_install_them_from_a_checkout(monkeypatch):
    packages = {"onnx": "onnx", "numpy": "onnx", "onnxruntime": "onnx", "openvino": "openvino"}
    for name in packages.keys() - {"numpy"}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        InputError, match=r'the export needs onnx, onnxruntime and openvino, .* `pip install "\.\[onnx,openvino\]"`'
    ):
        check_installed("the export", packages)
    check_installed("an array", {"numpy": "onnx"})
