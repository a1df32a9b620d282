"""How many tokens a model has positions for, whatever its kind counts them from."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def positions_of(model: "PreTrainedModel") -> int | None:
    """How many tokens a model has positions for; None where nothing limits them."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return positions - first_position(model) if positions and positions > 0 else None


def first_position(model: "PreTrainedModel") -> int:
    """The position of the first token: behind the padding index in RoBERTa and its kin (XLM-R, MPNet, ...), else 0."""
    for name, module in model.named_modules():
        # Told by the module, not by a list of names: who numbers positions like that marks the one of the padding.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx) + 1
    return 0
