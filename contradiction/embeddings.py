"""What an encoder makes of single texts, without being fine-tuned: a vector each."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from contradiction.characters import simplified
from contradiction.classifiers.scoring import autocast, best_device, check_precision, max_length_of
from contradiction.errors import InputError, first_line
from contradiction.quiet import no_load_report, no_model_bars
from contradiction.weights import sound

BATCH = 64
LONGEST = 128  # tokens of a text that are read; nine in ten thousand utterances of CDConv are longer


class Embedder:
    """The mean of an encoder's last hidden states over a text's tokens (Reimers and Gurevych, 2019, *Sentence-BERT*).

    A text is embedded once, however often it is asked for.

    Args:
        name: folder or Hub id of an encoder that ``AutoModel`` loads.
        precision: of the arithmetic, see ``contradiction.classifiers.scoring``.

    Raises:
        InputError: there is no such encoder, or its weights are damaged.
    """

    def __init__(self, name: str | Path, precision: str = "fp32") -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.name = str(name)
        self._precision = check_precision(precision)
        self._known: dict[str, np.ndarray] = {}
        try:
            # Without the report, which is about the pooler, and about a head where there is one.
            with no_model_bars(quiet=Path(name).is_dir()), no_load_report(), sound(name):
                self._tokenizer = AutoTokenizer.from_pretrained(self.name)
                model = AutoModel.from_pretrained(self.name, dtype=torch.float32)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(
                f"embedder {name}: neither a folder with an encoder nor one on the Hub that can be reached "
                f"({first_line(error)})"
            ) from error
        self._model = model.to(best_device()).eval()

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """The vectors of texts, shape (texts, hidden), in float32."""
        asked = list(texts)
        # By length, so that a batch holds little padding.
        new = sorted({text for text in asked if text not in self._known}, key=lambda text: (len(text), text))
        if new:
            self._embed(new)
        return np.stack([self._known[text] for text in asked])

    def _embed(self, texts: list[str]) -> None:
        import torch
        from accelerate.utils import tqdm

        limit = min(LONGEST, max_length_of(self._model, self._tokenizer))
        with tqdm(total=len(texts), desc="embedding", unit="text", dynamic_ncols=True) as bar, torch.inference_mode():
            for first in range(0, len(texts), BATCH):
                batch = texts[first : first + BATCH]
                inputs = self._tokenizer(
                    [simplified(text) for text in batch],
                    padding=True, truncation=True, max_length=limit, return_tensors="pt",
                ).to(self._model.device)  # fmt: skip
                with autocast(self._model, self._precision):
                    states = self._model(**inputs).last_hidden_state.float()
                mask = inputs["attention_mask"][..., None]
                means = (states * mask).sum(1) / mask.sum(1)
                self._known.update(zip(batch, means.cpu().numpy(), strict=True))
                bar.update(len(batch))
