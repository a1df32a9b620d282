"""The backend of PyTorch: loads checkpoints in float32 and runs them on a CPU or GPU."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from contradiction.errors import InputError, first_line
from contradiction.inference.base import INT8, Backend, register, threads
from contradiction.inputs.tokenization import max_positions
from contradiction.io.hub import CONFIG
from contradiction.io.pretrained import check_vocabulary, check_weights, load_model, load_tokenizer, loading

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


FEWEST_TOKENS = 8  # a model must read at least this many
PROBE = [{"text": "你好", "text_pair": "你好"}]  # a wrong configuration may cause an error only when something is read


@register
class TorchBackend(Backend):
    """A checkpoint that PyTorch runs.

    Args:
        model: a sequence-classification model; it is set to evaluation mode.
        tokenizer: the tokenizer of the model.
        precision: one of ``contradiction.inference.base.PRECISIONS``, not slower than fp32 on the device of the model.
        name: the name of the model in error messages.
    """

    NAME = "torch"

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", precision: str = "fp32",
        name: str = "model",
    ) -> None:  # fmt: skip
        if precision == INT8:
            raise InputError(f"{name}: an encoder has no int8; leave the precision out")
        check_fast_enough(precision, model.device.type, name)
        self.model, self.tokenizer, self.precision = model.eval(), tokenizer, precision
        self.config = {**model.config.to_dict(), "id2label": model.config.id2label or {}}
        limit = int(tokenizer.model_max_length)
        self.max_length = min(limit, max_positions(model) or limit)

    @classmethod
    def load(cls, name: str | Path, *, device: str | None = None, precision: str = "fp32") -> Self:
        """Loads a checkpoint in float32 and its tokenizer; see :meth:`Backend.load`."""
        if find_spec("torch") is None:
            raise InputError(
                f"{name}: PyTorch is missing: pip install torch; or run an exported file with another backend"
            )
        import torch

        if Path(name).is_dir() and not (Path(name) / CONFIG).is_file():
            raise InputError(f"{name}: the folder holds no model (no {CONFIG}); `cdconv train` writes one")
        with loading(name):
            from transformers import AutoModelForSequenceClassification

            tokenizer = load_tokenizer(name)
            model: Any
            # float32 explicitly: a checkpoint saved in fp16 would load as fp16, which is slow and weak on a CPU.
            model, report = load_model(AutoModelForSequenceClassification, name, dtype=torch.float32)
            check_weights(str(name), model, report)
            check_vocabulary(str(name), model, tokenizer)
            loaded = cls(model, tokenizer, name=str(name))
            if loaded.max_length < FEWEST_TOKENS:
                raise InputError(f"{name}: reads at most {loaded.max_length} tokens, too few for a reply")
            loaded.score(PROBE)
        if (device := device or best_device()) != "cpu":
            with loading(name, f"{name}: cannot run on the device {device!r}"):
                model.to(device)
                loaded.score(PROBE)
        return cls(model, tokenizer, precision, str(name))

    def forward(self, batch: Sequence[Mapping[str, list[int]]]) -> np.ndarray:
        """Runs one batch; see :meth:`Backend.forward`."""
        import torch

        # With `return_tensors`, transformers would go through each token in Python.
        padded = self.tokenizer.pad([dict(encoding) for encoding in batch])
        inputs = {name: torch.tensor(values, device=self.model.device) for name, values in padded.items()}
        lower = self.precision != "fp32"
        number_format = torch.float16 if self.precision == "fp16" else torch.bfloat16
        with torch.inference_mode(), torch.autocast(self.model.device.type, number_format, enabled=lower):
            return self.model(**inputs).logits.float().cpu().numpy()


def check_device(device: str | None) -> None:
    """Raises InputError for a device that PyTorch cannot use here; the default device and a missing PyTorch pass."""
    if not device or find_spec("torch") is None:
        return
    import torch

    try:
        torch.zeros(1, device=device).cpu()  # back again, because the device "meta" takes numbers and gives none
    except (AssertionError, ImportError, RuntimeError) as error:  # torch raises any of them
        raise InputError(
            f"device {device!r}: PyTorch cannot use it here ({first_line(error)}); usual ones are cpu, cuda:0 and mps"
        ) from error


def use_allowed_cores() -> None:
    """Limits PyTorch, which counts the cores of the machine, to those that a container may use, for a whole process."""
    if find_spec("torch"):
        import torch

        torch.set_num_threads(min(torch.get_num_threads(), threads()))


def best_device() -> str:
    """``cuda`` where there is a GPU, else ``cpu``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_fast_enough(precision: str, device: str, name: str) -> None:
    """Raises InputError for a precision that only makes a device slower."""
    if precision == INT8 and device != "cpu":
        raise InputError(f"{name}: int8 is for a CPU; on a GPU bf16 or fp16 is the fast one")
    if device != "cpu" or precision in ("fp32", INT8):
        return
    if precision == "fp16":
        raise InputError(f"{name}: fp16 is slower than fp32 on a CPU; bf16 is the fast one there")
    if not has_bf16():
        raise InputError(f"{name}: this CPU has no instructions for bf16, so bf16 is slower than fp32")


def has_bf16() -> bool:
    """Whether the CPU has instructions for bf16; CPUs other than x86 are assumed to have them."""
    import torch

    cpu = torch.cpu.get_capabilities()
    return cpu.get("architecture") != "x86_64" or bool(cpu.get("avx512_bf16") or cpu.get("amx_bf16"))
