"""The wheel, installed into an empty environment, works from any folder without the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from helpers.chats import chat

from contradiction.paths import CHECKOUT

PARTS = ("contradiction", "evaluate_metric", "space", "models/recipes")
BUILT_FROM = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """A new environment with the wheel of this checkout and the libraries of the current environment."""
    folder = tmp_path_factory.mktemp("package")
    for name in (*PARTS, *BUILT_FROM):
        source, copy = CHECKOUT / name, folder / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    # What pip would call, without its further processes.
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder / 'dist')!r})"
    subprocess.run([sys.executable, "-c", build], cwd=folder / "source", check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python, "install"]
    wheels = (folder / "dist").glob("*.whl")
    subprocess.run([*pip, "--no-compile", "--no-deps", "--no-index", *wheels], check=True, capture_output=True)
    own = sysconfig.get_path("purelib", vars={"base": str(folder / "env")})
    Path(own, "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "env"


@pytest.fixture
def call(environment, tmp_path):
    """Runs a program of the new environment in an empty folder."""

    def run(program, *arguments, **options):
        command = [environment / "bin" / program, *map(str, arguments)]
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CDCONV_MODEL")}
        return subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, **options)

    return run


def test_the_wheel_contains_every_part_of_the_checkout(environment):
    [installed] = environment.glob("lib/python*/site-packages")
    folders = {"space": "contradiction/space", "models/recipes": "contradiction/recipes"}
    for part in PARTS:
        source = CHECKOUT / part
        for file in [source] if source.is_file() else source.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                inside = installed / folders.get(part, part) / file.relative_to(source)
                assert inside.is_file(), f"{file.relative_to(CHECKOUT)} is not in the wheel"
                assert inside.read_bytes() == file.read_bytes()


# All in one process, because it imports every large library.
USE = """
import sys
from importlib.util import find_spec
from pathlib import Path
from contradiction import ContradictionDetector, evaluate, paths, train
from contradiction.commands.serve import page
from contradiction.data import build
from contradiction.training.recipe import load_recipe

assert paths.CHECKOUT is None and not paths.SHIPPED.exists()
assert load_recipe("tiny").data.config == "4-class"
build.build(build.find("sample"), Path("cdconv"))
assert ContradictionDetector.from_pretrained(sys.argv[1])({messages}).reply == (3,)
names = "evaluate_metric.evaluate_metric", "contradiction.cdconv"
files = [page().__file__, *(find_spec(name).origin for name in names)]
assert "cdconv" not in sys.modules
print(*files)
"""


def test_all_parts_of_the_package_work_from_any_folder(call, environment, detect_model, tmp_path):
    (tmp_path / "cdconv").mkdir()  # the folder of the data, which nothing imports as a module
    messages = chat("你养猫吗？", "养了一只橘猫", "它叫什么名字？", "我没养过猫呀")
    done = call("python", "-c", USE.replace("{messages}", repr(messages)), detect_model)
    assert done.returncode == 0, done.stderr
    files = done.stdout.splitlines()[-1].split()
    assert len(files) == 3 and all(Path(file).is_relative_to(environment) for file in files)
    assert "# CDConv sample" in (tmp_path / "cdconv" / "README.md").read_text(encoding="utf-8")


def test_without_the_shipped_detector_a_model_must_be_named(call):
    done = call("cdconv", "detect", input="")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--model" in done.stderr
