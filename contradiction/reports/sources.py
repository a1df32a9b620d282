"""What a model was made of, and what that allows: its encoder, its corpora, the models before it, and the licence."""

from collections.abc import Mapping, Sequence
from typing import Any

from contradiction import cdconv
from contradiction.data import corpora, nli
from contradiction.labels import RELEASE
from contradiction.training import leakage, record

# By the name of the training data. NLI weights have the licence of OCNLI, which is the same as that of CDConv.
LICENSES = {RELEASE: cdconv.LICENSE, nli.NAME: cdconv.LICENSE, "CDConv sample": "cc0-1.0"}
# The licences of backbones by Hub id.
BACKBONES = {"intfloat/multilingual-e5-small": "MIT", "hfl/chinese-roberta-wwm-ext": "Apache-2.0"}
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
    bases = filter(None, map(record.base_model_of_run, parts))
    licences = [_of_data(name) for name in sorted({*titles, *data, *before} - {None})]
    licences += [BACKBONES[base].lower() for base in bases if base in BACKBONES]
    return max(licences, key=_strictness, default=OTHER)


def forbids_commerce(licence: str) -> bool:
    """Whether a licence forbids commercial use."""
    return "nc" in licence.split("-")


def title_of(licence: str) -> tuple[str, str]:
    """The title and the address of a Creative Commons licence: ``cc-by-nc-4.0`` -> ``CC BY-NC 4.0`` and its page."""
    kind, _, version = licence.removeprefix("cc-").rpartition("-")
    return f"CC {kind.upper()} {version}", f"https://creativecommons.org/licenses/{kind}/{version}/"


def languages_of(run: Mapping[str, Any]) -> list[str]:
    """The codes of the languages of the training data."""
    named = next((part["languages"] for part in _parts(run) if part.get("languages")), None)
    return named or (["zh", "en"] if run["request"]["data_name"] == nli.MIXED else ["zh"])


def credits_sentence(backbones: Sequence[str], corpora: Sequence[str] = ()) -> str | None:
    """The sources of a model with their licences, in Markdown with links; None where none is known.

    ``backbones`` are Hub ids, ``corpora`` the titles of the corpora of the NLI stage.
    """
    parts = [
        f"the encoder {_credit(name, f'https://huggingface.co/{name}', BACKBONES.get(name))}" for name in backbones
    ]
    if corpora:
        *others, last = map(_corpus, corpora)
        parts.append(f"an NLI stage on {' and '.join(filter(None, (', '.join(others), last)))}")
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
