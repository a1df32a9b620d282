"""The scripts of the paper and of the experiments say how they are used."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [
    f"{file.parent.name}.{file.stem}"
    for folder in ("paper", "experiments")
    for file in sorted((ROOT / folder).glob("*.py"))
    if '__name__ == "__main__"' in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_a_help(name, monkeypatch, capsys):
    if name.endswith("screenshots"):
        pytest.importorskip("playwright")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__")
    assert not ended.value.code
    assert "--help" in capsys.readouterr().out


def test_every_experiment_is_on_the_list_of_experiments():
    page = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    missing = [name for name in SCRIPTS if name.startswith("experiments.") and f"`{name.split('.')[1]}.py" not in page]
    assert missing == []
