"""The corpora of this folder, by name."""

import os
import pkgutil
from importlib import import_module
from pathlib import Path

from contradiction.data import corpora as package
from contradiction.data.corpora.corpus import Corpus
from contradiction.errors import InputError

VARIABLE = "CDCONV_CORPORA"  # a folder with a folder for each corpus, by its name


def all_corpora() -> dict[str, Corpus]:
    """Every corpus by its name: the object ``CORPUS`` of each file of the folder that has one."""
    by_name = {}
    for module in pkgutil.iter_modules(package.__path__):
        corpus = getattr(import_module(f"{package.__name__}.{module.name}"), "CORPUS", None)
        if isinstance(corpus, Corpus):
            by_name[corpus.name] = corpus
    return dict(sorted(by_name.items()))


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
