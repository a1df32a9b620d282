"""The packages of the wheel. Everything else is in pyproject.toml.

The recipes and the page have folders of their own in the repository. The installed package holds them as
``contradiction/recipes`` and ``contradiction/space``, where ``contradiction/paths.py`` finds them.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["contradiction*"]),
        "contradiction.templates",
        "contradiction.recipes",
        "contradiction.space",
        "evaluate_metric",
    ],
    package_dir={"contradiction.recipes": "models/recipes", "contradiction.space": "space"},
)
