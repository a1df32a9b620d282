"""The methods that the tables of `cdconv reproduce` can show. To add one, add an entry to :data:`METHODS`."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A method of the grid. Its key in ``METHODS`` is the view that it reads.

    Attributes:
        recipes: for each label set that it is trained on, the name of its recipe in ``models/recipes``.
        colour: of its curve; from Okabe and Ito's palette, which colour-blind people can tell apart.
        paper: whether the paper has it. Only these are in a table by default.
        artefact: whether it is an artefact baseline: an encoder that sees only one side of the comparison.
    """

    recipes: Mapping[str, str]
    colour: str
    paper: bool = False
    artefact: bool = False


_FLATTEN = {"2-class": "flatten-2-class", "4-class": "flatten-4-class"}
METHODS: dict[str, Method] = {
    "sentence-pair": Method(
        {"2-class": "sentence-pair-2-class", "4-class": "sentence-pair-4-class"}, colour="#0072B2", paper=True
    ),
    "flatten": Method(_FLATTEN, colour="#E69F00", paper=True),
    "hierarchical": Method({"4-class": "hierarchical-4-class"}, colour="#009E73", paper=True),
    # Trained as flatten is, each on its own view.
    "reply-only": Method(_FLATTEN, colour="#CC79A7", artefact=True),
    "context-only": Method(_FLATTEN, colour="#000000", artefact=True),
}


def paper_methods() -> tuple[str, ...]:
    """The names of the paper's methods."""
    return tuple(name for name, method in METHODS.items() if method.paper)


def label_of(name: str) -> str:
    """How tables name a method."""
    return f"{name} (artefact baseline)" if METHODS[name].artefact else name
