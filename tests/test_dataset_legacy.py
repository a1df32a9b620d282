"""The data set under an older `datasets`: `cdconv.py` as a loading script, and the Parquet folder.

It runs in a separate environment, `.venv-legacy` in the root of the checkout, which `make` creates from
requirements-legacy.txt.
"""

import inspect
import json
import os
import shutil
import subprocess

import pytest
from datasets import load_dataset
from helpers.pages import ROOT

from contradiction.paths import SAMPLE

pytestmark = pytest.mark.legacy

PYTHON = ROOT / ".venv-legacy" / "bin" / "python"
CONFIGS = ["2-class", "4-class", "persona", "2-class-grouped", "4-class-grouped", "persona-grouped"]
NAMED = ("label", "trigger", "bot")


def described(found):
    """The config, the types with the names of classes, and the rows of each split."""
    return {
        split: {
            "config": side.config_name,
            "types": {name: getattr(kind, "names", kind.dtype) for name, kind in side.features.items()},
            "rows": side.to_list(),
        }
        for split, side in found.items()
    }


# Runs in that environment. It prints JSON lines: the versions, then what is described of each data set.
SCRIPT = (
    inspect.getsource(described)
    + """
import importlib.util, json, sys

import datasets
from datasets import load_dataset

configs, source = json.loads(sys.argv[1]), sys.argv[2]
datasets.disable_progress_bars()
torch = importlib.util.find_spec("torch") is not None
print(json.dumps({"datasets": datasets.__version__, "torch": torch}))


def show(found):
    print(json.dumps(described(found)))


for config in configs:
    show(load_dataset("cdconv.py", config, trust_remote_code=True, source=source))
    show(load_dataset("cdconv", config))
show(load_dataset("cdconv.py", trust_remote_code=True, source=source))
show(load_dataset("cdconv"))
try:
    load_dataset("cdconv.py", trust_remote_code=True, source="bad.txt")
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""
)


@pytest.fixture(scope="module")
def sample(sample_repo, tmp_path_factory):
    """What the older `datasets` reads in a folder with `cdconv.py`, the data repo `cdconv/`, and a bad file."""
    if not PYTHON.is_file():
        pytest.skip(f"needs {PYTHON.parents[1].name}, made by `make` from requirements-legacy.txt")
    home = tmp_path_factory.mktemp("legacy")
    shutil.copytree(sample_repo, home / "cdconv")
    shutil.copy(ROOT / "cdconv.py", home)
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    bad = lines[6].replace('"label": ', '"label": 1')
    (home / "bad.txt").write_text("\n".join([*lines[:6], bad]), encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if name not in ("CDCONV_FILE", "HF_DATASETS_CACHE")}
    done = subprocess.run(
        [PYTHON, "-c", SCRIPT, json.dumps(CONFIGS), str(SAMPLE)], cwd=home, capture_output=True, text=True,
        encoding="utf-8", env=environment | {"HF_HOME": str(home / "hf")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    versions, *loaded, error = map(json.loads, done.stdout.splitlines())
    names = [*CONFIGS, None]
    script, folder = (dict(zip(names, loaded[start::2], strict=True)) for start in (0, 1))
    return {"versions": versions, "script": script, "folder": folder, "error": error}


def test_the_legacy_environment_is_old_and_has_no_torch(sample):
    assert sample["versions"] == {"datasets": "3.6.0", "torch": False}


@pytest.mark.parametrize("config", [*CONFIGS, None])
def test_datasets_3_reads_the_same_rows_order_and_names_as_the_current_one(config, sample, sample_repo, tmp_path):
    expected = described(load_dataset(str(sample_repo), config, cache_dir=str(tmp_path)))
    assert list(expected) == ["train", "validation", "test"]
    for form in ("script", "folder"):
        legacy = sample[form][config]
        assert list(legacy) == list(expected)
        for split, side in expected.items():
            assert list(legacy[split]["types"].items()) == list(side["types"].items())
            assert legacy[split]["rows"] == side["rows"]
            assert all(isinstance(side["types"][column], list) for column in NAMED)
            assert legacy[split]["config"].split("-source")[0] == (config or "4-class")


def test_the_loading_script_names_a_bad_row(sample):
    kind, message = sample["error"]
    assert kind == "InvalidSourceError"
    assert "bad.txt:7: column 'label' is 1" in message
