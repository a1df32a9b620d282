"""The corpora that this package reads, by name. Each module here describes one of them, or several of one format."""

import os
import pkgutil
from importlib import import_module
from pathlib import Path

from contradiction.data.corpora.corpus import Corpus
from contradiction.errors import InputError

VARIABLE = "CDCONV_CORPORA"  # a folder with a folder for each corpus, by its name


def all_corpora() -> dict[str, Corpus]:
    """Every corpus by its name: each object :class:`Corpus` of a module of this folder."""
    modules = (import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    corpora = [value for module in modules for value in vars(module).values() if isinstance(value, Corpus)]
    return {corpus.name: corpus for corpus in sorted(corpora, key=lambda corpus: corpus.name)}


def find(name: str) -> Corpus:
    """A corpus by its name; raises InputError for an unknown one."""
    known = all_corpora()
    if name not in known:
        raise InputError(f"corpus {name!r} is not known; the known corpora are {', '.join(known)}")
    return known[name]


def find_by_title(title: str) -> Corpus | None:
    """The corpus with a title, which is the name of its data repo; None if there is none."""
    return next((corpus for corpus in all_corpora().values() if corpus.title == title), None)


def local_copy(corpus: Corpus, folder: str | Path | None = None) -> Path | None:
    """The folder of a corpus in this package or in a folder of corpora, by default ``$CDCONV_CORPORA``; else None."""
    folder = folder or os.environ.get(VARIABLE)
    if corpus.bundled or not folder:
        return corpus.bundled
    place = Path(folder) / corpus.name
    return place if place.exists() else None
