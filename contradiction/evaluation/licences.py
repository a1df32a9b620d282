"""The licence and the languages of recorded weights, and the credits of their sources."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contradiction import cdconv
from contradiction.data import corpora, nli
from contradiction.labels import EMBEDDED, RELEASE
from contradiction.training import leakage, record

# By the name of the training data. NLI weights have the licence of OCNLI, which is the same as that of CDConv.
LICENSES = {RELEASE: cdconv.LICENSE, nli.NAME: cdconv.LICENSE, EMBEDDED: "cc0-1.0"}
# The licences of backbones by Hub id.
BACKBONES = {
    "intfloat/multilingual-e5-small": "MIT",
    "hfl/chinese-roberta-wwm-ext": "Apache-2.0",
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": "Apache-2.0",
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": "Apache-2.0",
}
OTHER = "other"  # a licence that is not known


def licence_of(run: Mapping[str, Any]) -> str:
    """The licence of the weights of a recorded run, an identifier of the Hub.

    It is the strictest licence of its data, its base models, its corpora, and the data of the models that it was made
    from. A licence against commercial use is stricter than an unknown one, and that is stricter than any other.
    """
    parts = _parts(run)
    titles = {title for part in parts for title in part.get("corpora") or []}
    data = {part.get("request", {}).get("data_name") for part in parts}
    before = {training.data_name for part in parts for training in leakage.trainings(part)}
    bases = [
        record.base_model_of_run(part)
        for part in parts
        if record.options_of(part.get("request", {}).get("recipe"), "model").get("backbone")
    ]
    licences = [_of_data(name) for name in sorted({*titles, *data, *before} - {None})]
    licences += [BACKBONES.get(str(base), OTHER).lower() for base in bases]
    return strictest(licences)


def strictest(licences: Iterable[str]) -> str:
    """The strictest of some licences, see :func:`licence_of`; unknown without any."""
    return max(licences, key=_strictness, default=OTHER)


def forbids_commerce(licence: str) -> bool:
    """Whether a licence is one of Creative Commons without commercial use."""
    return "nc" in licence.split("-")


def linked(licence: str) -> str:
    """A licence in Markdown: ``cc-by-nc-4.0`` -> ``CC BY-NC 4.0`` with a link to its page."""
    if not forbids_commerce(licence):
        return "not known" if licence == OTHER else f"`{licence}`"
    kind, _, version = licence.removeprefix("cc-").rpartition("-")
    return f"[CC {kind.upper()} {version}](https://creativecommons.org/licenses/{kind}/{version}/)"


def languages_of(run: Mapping[str, Any]) -> list[str]:
    """The codes of the languages of the training data."""
    return next((part["languages"] for part in _parts(run) if part.get("languages")), ["zh"])


def credits_sentence(bases: Sequence[str], titles: Sequence[str], kind: str = "encoder") -> str | None:
    """The sources of a model with their licences, in Markdown with links; None where none is known.

    ``bases`` are Hub ids of models of this kind, ``titles`` those of the NLI corpora: of a stage before an encoder's
    training, or of pairs that a language model reads with its other data.
    """
    parts = [f"the {kind} {_credit(name, f'https://huggingface.co/{name}', BACKBONES.get(name))}" for name in bases]
    if titles:
        *others, last = map(_corpus, titles)
        read = "an NLI stage on" if kind == "encoder" else "NLI pairs of"
        parts.append(f"{read} {' and '.join(filter(None, (', '.join(others), last)))}")
    return ", and ".join(parts) or None


def _parts(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [run, *run.get("stages", {}).values(), *record.members(run)]


def _of_data(name: str) -> str:
    corpus = corpora.find_by_title(name)
    licence = corpus.license if corpus else LICENSES.get(name, OTHER)
    return OTHER if licence == "unknown" else licence


def _strictness(licence: str) -> tuple[bool, bool, bool, str]:
    return forbids_commerce(licence), licence == OTHER, licence != "cc0-1.0", licence


def _corpus(title: str) -> str:
    if not (corpus := corpora.find_by_title(title)):
        return title
    licence = "licence not stated" if corpus.license == "unknown" else corpus.license
    return _credit(title, corpus.homepage.split()[0], licence)


def _credit(name: str, url: str, licence: str | None) -> str:
    return (f"[{name}]({url})" if url.startswith("http") else name) + (f" ({licence})" if licence else "")
