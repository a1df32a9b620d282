"""The lock file that `make setup` installs: hashes of all packages but torch. The error for a missing package."""

import re
import sys
from importlib.metadata import distributions
from itertools import pairwise
from sysconfig import get_path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from contradiction.errors import InputError
from contradiction.io.environment import check_installed
from contradiction.paths import CHECKOUT

HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}( \\)?")
PINNED = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?P<marker> ; [^\\]+)? \\")


def pinned():
    lines = (CHECKOUT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(it.name): it.specifier for it in requirements}


def locked():
    """Name -> the versions in the lock file, one of which is for this version of Python."""
    lines = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if not line.startswith("#")]
    others = [line for line in lines if not HASH.fullmatch(line)]
    assert [line for line in others if not PINNED.fullmatch(line)] == []  # no index address either
    assert all(HASH.fullmatch(after) for line, after in pairwise(lines) if line in others)
    versions = {}
    for line in others:
        versions.setdefault(PINNED.fullmatch(line)["name"], []).append(PINNED.fullmatch(line)["version"])
    return versions


def test_every_package_but_torch_is_locked_in_the_version_that_is_pinned():
    versions, wanted = locked(), pinned()
    assert "torch" in wanted and "torch" not in versions
    del wanted["torch"]
    assert {name: [str(specifier)] for name, specifier in wanted.items()} == {
        name: [f"=={version}" for version in versions.get(name, [])] for name in wanted
    }, "`make lock` writes the lock file after a change"


def test_the_dependencies_of_locked_packages_are_locked():
    versions, missing = locked(), set()
    # An imported package may add bundled packages to the path. They do not count.
    here = {it.name: it for it in distributions(path=[get_path("purelib"), get_path("platlib")])}
    for package in (it for name, it in here.items() if it.version in versions.get(canonicalize_name(name), ())):
        needed = [Requirement(text) for text in package.requires or ()]
        names = {canonicalize_name(it.name) for it in needed if not it.marker or it.marker.evaluate({"extra": ""})}
        missing |= names - versions.keys() - {"torch"}
    assert here and missing == set()


def test_missing_packages_are_named_with_the_extras_that_install_them_from_a_checkout(monkeypatch):
    packages = {"onnx": "onnx", "numpy": "onnx", "onnxruntime": "onnx", "openvino": "openvino"}
    for name in packages.keys() - {"numpy"}:
        monkeypatch.setitem(sys.modules, name, None)
    command = r'`pip install -e "\.\[onnx,openvino\]"`'
    with pytest.raises(InputError, match=f"the export needs onnx and onnxruntime and openvino, .* {command}"):
        check_installed("the export", packages)
    check_installed("an array", {"numpy": "onnx"})


def test_extras_are_installed_in_place_everywhere():
    """A copy of the package in site-packages does not find the shipped detector."""
    folders = ("contradiction", "docs", "examples", "models/recipes", "models/qwen-1.5b", "space")
    files = [*CHECKOUT.glob("*.md"), *(file for folder in folders for file in (CHECKOUT / folder).rglob("*.*"))]
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix in (".md", ".py", ".toml")]
    commands = [command for text in texts for command in re.findall(r"pip install [^`\n]*\.\[", text)]
    assert len(commands) > 10 and set(commands) == {'pip install -e ".['}
