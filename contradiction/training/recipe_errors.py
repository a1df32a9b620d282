"""What is wrong with a recipe, in one line: the key, its value, and what would be right."""

from typing import TYPE_CHECKING, Any

from contradiction.training.recipe_options import ALLOWED, TABLES

if TYPE_CHECKING:
    from pydantic import ValidationError

TOP_LEVEL = ("name", "seed", "precision")


def describe(error: "ValidationError") -> str:
    """The first thing that is wrong: its key with the table, and what would be right."""
    first: Any = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{key} is no option; {_there_are(first['loc'])}"
    if first["type"] == "missing":
        return f"{key} is missing{_what_is_right(key)}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it should be")
    if not key:
        return message
    # Of a table as a whole the message says which of its keys.
    table = key in TABLES or key == "model.scratch"
    return f"[{key}]: {message}" if table else f"{key} is {first['input']!r}: {message}"


def _what_is_right(missing: str) -> str:
    if missing in TABLES:
        return f"; the table [{missing}] has {', '.join(TABLES[missing].model_fields)}"
    return f"; allowed are {', '.join(ALLOWED[missing])}" if missing in ALLOWED else ""


def _there_are(place: tuple[str | int, ...]) -> str:
    table, option = ".".join(map(str, place[:-1])), str(place[-1])
    owners = [name for name, options in TABLES.items() if option in options.model_fields]
    if owners:
        return f"it stands in the table [{owners[0]}]"
    if table in TABLES:
        return f"[{table}] has {', '.join(TABLES[table].model_fields)}"
    if not table:
        return f"a recipe has {', '.join(TOP_LEVEL)} and the tables {', '.join(f'[{name}]' for name in TABLES)}"
    return "remove it"
