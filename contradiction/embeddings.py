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
LONGEST = 128  # tokens of a text that are read; no utterance of CDConv has as many


class Embedder:
    """The mean of an encoder's last hidden states over a text's tokens (Reimers and Gurevych, 2019, *Sentence-BERT*).

    A text is embedded once, however often it is asked for.

    Args:
        name: folder or Hub id of an encoder that ``AutoModel`` loads.
        precision: of the arithmetic, see ``contradiction.classifiers.scoring``.

    Attributes:
        name: as given.

    Raises:
        InputError: there is no such encoder, it embeds no text, or its weights are damaged or not all there.
    """

    def __init__(self, name: str | Path, precision: str = "fp32") -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.name = str(name)
        self._precision = check_precision(precision)
        self._known: dict[str, np.ndarray] = {}
        try:
            # Without the report, which is about a pooler or a head; the encoder is looked at below. What is drawn for
            # these must not move the numbers that training draws.
            with (
                no_model_bars(quiet=Path(name).is_dir()), no_load_report(), sound(name),
                torch.random.fork_rng(devices=[]),
            ):  # fmt: skip
                self._tokenizer = AutoTokenizer.from_pretrained(self.name)
                model, loading = AutoModel.from_pretrained(self.name, dtype=torch.float32, output_loading_info=True)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(
                f"embedder {name}: neither a folder with an encoder nor one on the Hub that can be reached "
                f"({first_line(error)})"
            ) from error
        absent = [*loading["missing_keys"], *(key for key, *_ in loading["mismatched_keys"])]
        if lacking := sorted(key for key in absent if "pooler" not in key.split(".")):
            raise InputError(f"embedder {name}: its checkpoint lacks {len(lacking)} weights, {lacking[0]} for one")
        self._model = model.to(best_device()).eval()
        try:
            self(["你好"])
        except InputError:
            raise
        except (AttributeError, TypeError, ValueError) as error:  # a decoder needs more, a tokenizer has no padding
            raise InputError(f"embedder {name}: makes no embeddings of a text ({first_line(error)})") from error

    @property
    def short_name(self) -> str:
        """The last part of its folder or Hub id."""
        return (Path(self.name).resolve() if Path(self.name).is_dir() else Path(self.name)).name

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
        bar = tqdm(total=len(texts), desc="embedding", unit="text", dynamic_ncols=True, disable=len(texts) <= BATCH)
        with bar, torch.inference_mode():
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
                if not means.isfinite().all():
                    raise InputError(f"embedder {self.name}: not finite numbers at {self._precision}; take fp32")
                self._known.update(zip(batch, means.cpu().numpy(), strict=True))
                bar.update(len(batch))
