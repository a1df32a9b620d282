"""Packages that only some commands need."""

from collections.abc import Mapping
from importlib.util import find_spec

from contradiction.errors import InputError


def check_installed(user: str, packages: Mapping[str, str]) -> None:
    """Raises InputError if a package is missing, with the command that installs it.

    The command installs from a checkout: this project is in no package index, where its name may be somebody else's.

    Args:
        user: what needs the packages.
        packages: package -> the extra of this project that installs it.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        *others, last = missing
        names = f"{', '.join(others)} and {last}" if others else last
        extras = ",".join(dict.fromkeys(packages[package] for package in missing))
        raise InputError(
            f'{user} needs {names}, not installed here; run `pip install ".[{extras}]"` in a checkout of this project'
        )
