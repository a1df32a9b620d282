"""Whose work a model is made of, and under which licence: what a model card owes to others."""

from collections.abc import Sequence

# Of the encoders that the recipes of this project start from, by Hub id.
BACKBONES = {
    "intfloat/multilingual-e5-small": "MIT",
    "hfl/chinese-roberta-wwm-ext": "Apache-2.0",
}
# Of the corpora of an NLI stage, by the name that a record gives them: where they are from, and the terms.
CORPORA = {
    "OCNLI": ("https://github.com/CLUEbenchmark/OCNLI", "CC BY-NC 2.0"),
    "CMNLI": ("https://github.com/CLUEbenchmark/CLUE", "for research"),
}


def sentence(backbones: Sequence[str], corpora: Sequence[str] = ()) -> str | None:
    """The encoders and the NLI corpora that a model is made of, in Markdown with links; None where neither is known.

    Args:
        backbones: the Hub ids of the encoders at its very start.
        corpora: the names of what it was trained on before CDConv.
    """
    parts = [f"the encoder [{name}](https://huggingface.co/{name}){_terms(BACKBONES.get(name))}" for name in backbones]
    if corpora:
        parts.append(f"an NLI stage on {' and '.join(_corpus(each) for each in corpora)}")
    return ", and ".join(parts) or None


def _corpus(name: str) -> str:
    url, licence = CORPORA.get(name, (None, None))
    return (f"[{name}]({url})" if url else name) + _terms(licence)


def _terms(licence: str | None) -> str:
    return f" ({licence})" if licence else ""
