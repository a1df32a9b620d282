"""What an encoder makes of single texts, without being fine-tuned: a vector each."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from threading import Lock

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.torch_backend import (
    autocast,
    check_fast_enough,
    check_precision,
    encode,
    knows,
    max_length_of,
    placed,
)
from contradiction.inputs.characters import simplified
from contradiction.io.quiet import no_load_report, no_model_bars
from contradiction.io.weights import sound

BATCH = 64
HELD = 2**17  # texts whose vectors are held: 200 MB of a small encoder


class Embedder:
    """The mean of an encoder's last hidden states over a text's tokens (Reimers and Gurevych, 2019, *Sentence-BERT*).

    A text is embedded once, however often it is asked for, as long as its vector is among the last ``HELD``. What is
    too long for the encoder is cut from the left. Safe to call from several threads.

    Args:
        name: folder or Hub id of an encoder that ``AutoModel`` loads.
        precision: of the arithmetic, see ``contradiction.inference.torch_backend``.
        device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.
        bar: whether many texts have a progress bar.

    Attributes:
        name: as given.
        max_length: tokens of a text that are read.

    Raises:
        InputError: there is no such encoder or device, it embeds no text, or its weights are damaged or not all there.
    """

    def __init__(
        self, name: str | Path, precision: str = "fp32", *, device: str | None = None, bar: bool = True
    ) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.name = str(name)
        self._precision = check_precision(precision)
        self._bar = bar
        self._known: dict[str, tuple[np.ndarray, bool]] = {}  # the oldest first: the vector, and whether it was cut
        self._holding = Lock()
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
        self._model = placed(model, device, f"embedder {name}")
        check_fast_enough(precision, self._model.device.type, f"embedder {name}")
        self.max_length = max_length_of(self._model, self._tokenizer)
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

    @property
    def device(self) -> str:
        """That of the encoder."""
        return str(self._model.device)

    @property
    def parameters(self) -> int:
        """How many the encoder has."""
        return self._model.num_parameters()

    def __call__(self, texts: Iterable[str]) -> np.ndarray:
        """The vectors of texts, shape (texts, hidden), in float32."""
        asked = list(texts)
        found = self._look_up(asked)
        return np.stack([found[text][0] for text in asked])

    def cut(self, texts: Iterable[str]) -> list[bool]:
        """Which texts are longer than ``max_length``, so that their first tokens are not read."""
        asked = list(texts)
        found = self._look_up(asked)
        return [found[text][1] for text in asked]

    def knows(self, text: str) -> bool:
        """Whether the encoder has a token of its own for any part of a text."""
        return knows(self._tokenizer, simplified(text))

    def save(self, folder: str | Path) -> None:
        """Writes the encoder and its tokenizer into a folder."""
        with no_model_bars():
            self._model.save_pretrained(folder)
            self._tokenizer.save_pretrained(folder)

    def _look_up(self, texts: list[str]) -> dict[str, tuple[np.ndarray, bool]]:
        found = {text: each for text in texts if (each := self._known.get(text))}
        # By length, so that a batch holds little padding.
        new = sorted({text for text in texts if text not in found}, key=lambda text: (len(text), text))
        if new:
            made = self._embed(new)
            found |= made
            with self._holding:
                self._known |= made
                for text in list(islice(self._known, max(0, len(self._known) - HELD))):
                    del self._known[text]
        return found

    def _embed(self, texts: list[str]) -> dict[str, tuple[np.ndarray, bool]]:
        import torch
        from huggingface_hub.utils import tqdm

        made: dict[str, tuple[np.ndarray, bool]] = {}
        quiet = len(texts) <= BATCH or not self._bar
        bar = tqdm(total=len(texts), desc="embedding", unit="text", dynamic_ncols=True, disable=quiet)
        with bar, torch.inference_mode():
            for first in range(0, len(texts), BATCH):
                batch = texts[first : first + BATCH]
                encoded, unread = encode(
                    self._tokenizer, [{"text": simplified(text)} for text in batch], self.max_length
                )
                inputs = self._tokenizer.pad(encoded, return_tensors="pt").to(self._model.device)
                with autocast(self._model, self._precision):
                    states = self._model(**inputs).last_hidden_state.float()
                mask = inputs["attention_mask"][..., None]
                means = (states * mask).sum(1) / mask.sum(1)
                if not means.isfinite().all():
                    raise InputError(f"embedder {self.name}: not finite numbers at {self._precision}; take fp32")
                cut = [each is not None for each in unread]
                made |= dict(zip(batch, zip(means.cpu().numpy(), cut, strict=True), strict=True))
                bar.update(len(batch))
        return made
