"""Embeds texts with an encoder that is not fine-tuned."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.base import check_precision
from contradiction.inference.torch_backend import autocast, check_fast_enough, to_device
from contradiction.inputs.tokenization import encode, has_known_token, max_length_of
from contradiction.inputs.views import normalize
from contradiction.io.environment import no_model_bars
from contradiction.io.pretrained import check_vocabulary, check_weights, load_model, load_tokenizer, loading

BATCH_SIZE = 64
CACHE_SIZE = 2**17  # texts whose vectors are kept: 200 MB for a small encoder


class Embedder:
    """Embeds a text as the mean of an encoder's last hidden states (Reimers and Gurevych, 2019, *Sentence-BERT*).

    The vectors of the last ``CACHE_SIZE`` texts are kept, and a text among them is not embedded again. A text that is
    too long for the encoder is cut from the left. Safe to call from several threads.

    Args:
        name: a folder or Hub id of an encoder that ``AutoModel`` loads.
        precision: one of ``contradiction.inference.base.PRECISIONS``.
        device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.
        bar: whether embedding many texts shows a progress bar.

    Attributes:
        name: as given.
        max_length: how many tokens of a text are read.

    Raises:
        InputError: there is no such encoder or device, it cannot embed text, or its weights are damaged or incomplete.
    """

    def __init__(
        self, name: str | Path, precision: str = "fp32", *, device: str | None = None, bar: bool = True
    ) -> None:
        import torch

        self.name = str(name)
        self._precision = check_precision(precision)
        self._bar = bar
        # The oldest text first: its vector, and whether it was truncated.
        self._cache: dict[str, tuple[np.ndarray, bool]] = {}
        self._lock = Lock()
        otherwise = f"embedder {name}: neither a folder with an encoder nor one on the Hub that can be reached"
        # The random weights of a pooler must not change the random numbers of a training run.
        with loading(name, otherwise), torch.random.fork_rng(devices=[]):
            from transformers import AutoModel

            self._tokenizer = load_tokenizer(name)
            model, report = load_model(AutoModel, name, dtype=torch.float32)
        check_weights(f"embedder {name}", model, report, optional=["pooler"])
        check_vocabulary(f"embedder {name}", model, self._tokenizer)
        self._model = to_device(model, device, f"embedder {name}").eval()
        check_fast_enough(precision, self._model.device.type, f"embedder {name}")
        self.max_length = max_length_of(self._model, self._tokenizer)
        try:
            self(["你好"])
        except InputError:
            raise
        except Exception as error:  # for instance a decoder, or no padding token
            raise InputError(f"embedder {name}: cannot embed a text ({first_line(error)})") from error

    @property
    def short_name(self) -> str:
        """The last part of the folder or Hub id."""
        return Path(self.name).resolve().name

    @property
    def device(self) -> str:
        """The device of the encoder."""
        return str(self._model.device)

    @property
    def parameters(self) -> int:
        """The number of parameters of the encoder."""
        return self._model.num_parameters()

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """The vectors of texts, shape (texts, hidden), in float32."""
        return np.stack([vector for vector, _ in self._look_up(texts)])

    def truncated(self, texts: Iterable[str]) -> list[bool]:
        """Which texts are longer than ``max_length`` tokens, so that their first tokens are not read."""
        return [is_truncated for _, is_truncated in self._look_up(texts)]

    def has_token_for(self, text: str) -> bool:
        """Whether any token of a text is other than the unknown token."""
        return has_known_token(self._tokenizer, normalize(text))

    def save(self, folder: str | Path) -> None:
        """Writes the encoder and its tokenizer into a folder."""
        with no_model_bars():
            self._model.save_pretrained(folder)
            self._tokenizer.save_pretrained(folder)

    def _look_up(self, texts: Iterable[str]) -> list[tuple[np.ndarray, bool]]:
        texts = list(texts)
        known = {text: cached for text in texts if (cached := self._cache.get(text))}
        # Sorted by length, so that a batch holds little padding.
        unknown = sorted({text for text in texts if text not in known}, key=lambda text: (len(text), text))
        if unknown:
            new = self._embed(unknown)
            known |= new
            with self._lock:
                self._cache |= new
                for text in list(islice(self._cache, max(0, len(self._cache) - CACHE_SIZE))):
                    del self._cache[text]
        return [known[text] for text in texts]

    def _embed(self, texts: list[str]) -> dict[str, tuple[np.ndarray, bool]]:
        import torch
        from huggingface_hub.utils import tqdm

        embedded: dict[str, tuple[np.ndarray, bool]] = {}
        quiet = len(texts) <= BATCH_SIZE or not self._bar
        bar = tqdm(total=len(texts), desc="embedding", unit="text", dynamic_ncols=True, disable=quiet)
        with bar, torch.inference_mode():
            for first in range(0, len(texts), BATCH_SIZE):
                batch = texts[first : first + BATCH_SIZE]
                inputs = [{"text": normalize(text)} for text in batch]
                encodings, truncations = encode(self._tokenizer, inputs, self.max_length)
                tensors = {
                    name: torch.tensor(values, device=self._model.device)
                    for name, values in self._tokenizer.pad(encodings).items()
                }
                with autocast(self._model, self._precision):
                    states = self._model(**tensors).last_hidden_state.float()
                mask = tensors["attention_mask"][..., None]
                means = (states * mask).sum(1) / mask.sum(1)
                if not means.isfinite().all():
                    raise InputError(f"embedder {self.name}: vectors are not finite at {self._precision}; take fp32")
                for text, mean, truncation in zip(batch, means.cpu().numpy(), truncations, strict=True):
                    embedded[text] = mean, truncation is not None
                bar.update(len(batch))
        return embedded
