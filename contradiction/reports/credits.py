"""The sources of a model: its encoders and the NLI corpora of its backbone, with their licences."""

from collections.abc import Sequence

# The licences of backbones by Hub id.
BACKBONES = {
    "intfloat/multilingual-e5-small": "MIT",
    "hfl/chinese-roberta-wwm-ext": "Apache-2.0",
}
# The sources and licences of the corpora of an NLI stage, by their names in a record.
CORPORA = {
    "OCNLI": ("https://github.com/CLUEbenchmark/OCNLI", "CC BY-NC 2.0"),
    "CMNLI": ("https://github.com/CLUEbenchmark/CLUE", "for research"),
    "CNLI": ("https://github.com/blcunlp/CNLI", "for research"),
}


def credits_sentence(backbones: Sequence[str], corpora: Sequence[str] = ()) -> str | None:
    """The encoders and the NLI corpora of a model, in Markdown with links; None where neither is known.

    Args:
        backbones: the Hub ids of the original encoders.
        corpora: the names of the corpora of the NLI stage.
    """
    parts = [f"the encoder [{name}](https://huggingface.co/{name}){_terms(BACKBONES.get(name))}" for name in backbones]
    if corpora:
        *others, last = map(_corpus, corpora)
        parts.append(f"an NLI stage on {' and '.join(filter(None, (', '.join(others), last)))}")
    return ", and ".join(parts) or None


def _corpus(name: str) -> str:
    url, licence = CORPORA.get(name, (None, None))
    return (f"[{name}]({url})" if url else name) + _terms(licence)


def _terms(licence: str | None) -> str:
    return f" ({licence})" if licence else ""
