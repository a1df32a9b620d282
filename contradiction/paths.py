"""Where the parts of the project are: in a checkout of the repository, or inside the installed package.

The recipes (``models/recipes``) and the page (``space``) have folders of their own in the repository. ``setup.py``
puts both into the installed package.
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
# The root of the repository. None where the package is installed without it.
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None

RECIPES = CHECKOUT / "models" / "recipes" if CHECKOUT else PACKAGE / "recipes"
SPACE = CHECKOUT / "space" if CHECKOUT else PACKAGE / "space"
METRIC = PACKAGE.parent / "evaluate_metric"
TEMPLATES = PACKAGE / "templates"
SAMPLE = PACKAGE / "data" / "sample.jsonl"

# The shipped detector and the kept results are in the repository only. In an installed package these folders do not
# exist.
SHIPPED = PACKAGE.parent / "models" / "e5-small-long-replies"
RESULTS = PACKAGE.parent / "models" / "results"
