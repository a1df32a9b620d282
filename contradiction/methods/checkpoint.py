"""The method of one fine-tuned checkpoint, which transformers also loads by itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from contradiction.decision import Rule
from contradiction.errors import InputError
from contradiction.inference import fastest_backend
from contradiction.inference.base import AUTO, BACKENDS, Backend, OnBatch, Scores
from contradiction.inputs.tokenization import has_known_token
from contradiction.inputs.views import CHINESE_ONLY_KEY, OPENINGS_KEY, VIEW_KEY, VIEWS, Row, model_input, normalize
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.io.hub import CONFIG
from contradiction.labels import LABELS
from contradiction.methods.base import Classifier
from contradiction.methods.loading import register

MERGED_KEY = "cdconv_merged"  # of the config.json of a causal detector that is merged with its base


@register
class CheckpointClassifier(Classifier):
    """A classifier of one checkpoint.

    Args:
        backend: the loaded checkpoint, whose configuration names the labels.
        view: the utterances that it reads, a key of ``contradiction.inputs.views.VIEWS``; by default the one that its
            configuration names. With a view, the labels may also be ``LABEL_0``, ``LABEL_1``, …, as in checkpoints of
            other projects: they are those of ``2-class`` or ``4-class``, in this order.
        name, rule: see :class:`Classifier`.
    """

    MARKER = CONFIG
    FILES = ("tokenizer_config.json",)
    TRANSFORMERS = True

    def __init__(
        self, backend: Backend, view: str | None = None, name: str = "model", rule: Rule | None = None
    ) -> None:
        self.own_view, named = str(backend.config.get(VIEW_KEY, "")), _with_label_names(backend.config)
        if not view and not self.own_view and named != backend.config:
            raise InputError(f"{name}: its labels have only numbers; name what it reads, for instance the view flatten")
        config = named if view else backend.config
        labels = [str(label) for _, label in sorted(config["id2label"].items(), key=lambda item: int(item[0]))]
        view = view or self.own_view
        super().__init__(labels, VIEWS.get(view, ()), name, rule)
        if view not in VIEWS:
            problem = f"there is no view {view!r}" if view else "its configuration names no view"
            raise InputError(f"{name}: {problem}; views are {', '.join(VIEWS)}")
        self.backend, self.view = backend, view
        self.chinese_only = backend.config.get(CHINESE_ONLY_KEY, True) is True

    @classmethod
    def load(cls, folder: str | Path, *, view: str | None = None, backend: str = "torch", **options: Any) -> Self:
        """Loads a checkpoint and its decision rule.

        A rule holds for the view that it was chosen with; for another view the default rule is used. The arguments are
        those of :func:`contradiction.methods.loading.load_classifier`.
        """
        computing = {"device": options.get("device"), "precision": options.get("precision", "fp32")}
        if backend == AUTO:
            backend = fastest_backend(folder, **computing)
        loaded = BACKENDS[backend].load(folder, **computing)
        if loaded.config.get(MERGED_KEY):
            raise InputError(f"{folder}: is a causal detector for transformers alone; name the folder it was made from")
        own_view = loaded.config.get(VIEW_KEY)
        rule = None
        if own_view is not None and view in (None, own_view):
            rule = Rule.from_config(loaded.config, Path(folder) / CONFIG)
        classifier = cls(loaded, view, str(folder), rule)
        # Training writes the view, and a rule for it. An NLI model, with which training begins, has none.
        classifier.needs_rule = rule is not None and classifier.task != "nli"
        return classifier

    @classmethod
    def check_folder(cls, folder: Path) -> None:
        """Raises InputError if the configuration, the tokenizer or the weights are missing."""
        super().check_folder(folder)
        if not any(folder.glob("*.safetensors")):
            raise InputError(f"{folder}: no weights (*.safetensors)")

    @property
    def judges_openings(self) -> bool:
        """Whether the model can judge a reply without an earlier reply."""
        return super().judges_openings or self.backend.config.get(OPENINGS_KEY) is True

    def model_input(self, row: Row) -> dict[str, str]:
        """The input of a text-classification pipeline for a row."""
        return model_input(row, self.columns, self.backend.tokenizer)

    def score(self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None) -> Scores:
        """The logits of rows, and what was truncated; see :meth:`Classifier.score`."""
        inputs = [self.model_input(row) for row in rows]
        return self.backend.score(inputs, batch_size=batch_size, on_batch=on_batch)

    def has_token_for(self, text: str) -> bool:
        """Whether the tokenizer has a token for any part of a text."""
        return has_known_token(self.backend.tokenizer, normalize(text))


def check_view(folder: Path, view: str) -> None:
    """Raises InputError if a folder has no checkpoint, or one that states another view."""
    file = folder / CONFIG
    if not file.is_file():
        raise InputError(f"{folder}: the folder has no {CONFIG}, so it is not a checkpoint and takes no view")
    if (own_view := read_json(file).get(VIEW_KEY, view)) != view:
        raise InputError(f"{file}: reads {own_view}, not {view}; leave the view out")


def save_view(folder: Path, view: str) -> None:
    """Writes the view of a checkpoint into its configuration, and the names of its labels if it has none."""
    write_json(folder / CONFIG, _with_label_names(read_json(folder / CONFIG)) | {VIEW_KEY: view})
    manifest.update(folder, CONFIG)


def _with_label_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration in which labels that have only numbers get the names of ``2-class`` or ``4-class``."""
    numbered = config.get("id2label") or {0: "LABEL_0", 1: "LABEL_1"}  # transformers does not write these two
    names = LABELS.get(f"{len(numbered)}-class")
    if names is None or any(label != f"LABEL_{number}" for number, label in numbered.items()):
        return dict(config)
    by_name = {name: number for number, name in enumerate(names)}
    return {**config, "id2label": dict(enumerate(names)), "label2id": by_name}
