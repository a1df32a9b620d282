"""The modules build on each other in the order that CONTRIBUTING.md states, and the scripts say how they are used."""

import ast
import re
import runpy
from graphlib import TopologicalSorter

import pytest
from helpers.pages import ROOT

FILES = [file for part in ("evaluate_metric", "contradiction") for file in ROOT.glob(f"{part}/**/*.py")]
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in (*FILES, *ROOT.glob("paper/*.py"), *ROOT.glob("experiments/*.py"))
}
PRODUCT = [module for module, file in MODULES.items() if file in FILES]


def names_in(file):
    """The names that a file imports, also inside functions and for type checks only."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {path if path in MODULES else node.module for path in paths}
    return names


def imports(module):
    return (names_in(MODULES[module]) & MODULES.keys()) - {module}


def part(module):
    package, *names = module.split(".")
    return package if package != "contradiction" else names[0] if names else "__init__"


IMPORTS = {module: imports(module) for module in MODULES}


def test_no_modules_import_each_other():
    TopologicalSorter(IMPORTS).prepare()


def packages(files):
    return {name.partition(".")[0] for file in files for name in names_in(file)}


def test_the_product_imports_neither_the_paper_nor_the_experiments():
    product = [*FILES, *ROOT.glob("space/*.py"), *ROOT.glob("examples/*.py"), *ROOT.glob("bench/*.py")]
    assert not packages(product) & {"paper", "experiments", "tests"}
    assert "experiments" not in packages(ROOT.glob("paper/*.py"))


def test_a_module_imports_only_from_its_part_and_earlier_ones():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("## The order of the parts\n")[1].split("\n## ")[0]
    order = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]+\|", section, flags=re.MULTILINE)))
    assert sorted(order) == sorted(set(map(part, PRODUCT)))
    late = {
        f"{module} imports {other}"
        for module in PRODUCT
        for other in IMPORTS[module]
        if order.index(part(other)) > order.index(part(module))
    }
    assert not late


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
