"""The modules of the library build on each other in the order that docs/extending.md states."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = [file for part in ("evaluate_metric", "contradiction") for file in ROOT.glob(f"{part}/**/*.py")]
MODULES = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}


def imports(module):
    """The modules that a module imports, also inside functions and for type checks only."""
    names = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {path if path in MODULES else node.module for path in paths}
    return (names & MODULES.keys()) - {module}


def part(module):
    package, *names = module.split(".")
    return package if package != "contradiction" else names[0] if names else "__init__"


IMPORTS = {module: imports(module) for module in MODULES}


def test_no_modules_import_each_other():
    TopologicalSorter(IMPORTS).prepare()


def test_a_module_imports_only_from_its_part_and_earlier_ones():
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    section = page.split("## The order of the parts\n")[1].split("\n## ")[0]
    order = re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]+\|", section, flags=re.MULTILINE)))
    assert sorted(order) == sorted(set(map(part, MODULES)))
    late = {
        f"{module} imports {other}"
        for module in MODULES
        for other in IMPORTS[module]
        if order.index(part(other)) > order.index(part(module))
    }
    assert not late
