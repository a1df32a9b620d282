"""The tables of a recipe: every option, its default, and the values it may take."""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from contradiction.inputs.views import HIERARCHICAL, VIEWS
from contradiction.labels import BOTS, CATEGORIES, CONFIGS

Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Strength = Annotated[float, Field(ge=0, allow_inf_nan=False)]
LearningRate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def one_of(names: Iterable[str]) -> AfterValidator:
    """Allows only these names."""
    allowed = tuple(names)

    def check(name: str) -> str:
        if name not in allowed:
            raise ValueError(f"allowed are {', '.join(allowed)}")
        return name

    return AfterValidator(check)


class Options(BaseModel):
    """Immutable options with strict types; unknown options are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class DataOptions(Options):
    """The table ``[data]``: the rows and the labels.

    Attributes:
        config: the config of the data set.
        view: the utterances that are read, see ``contradiction.inputs.views``; the method hierarchical needs none.
        target: a category; the labels are then this category and all other rows.
        bot: ``eva`` or ``plato``: train and validate only on the rows of this bot.
        train_fraction: the fraction of the training rows, see :func:`contradiction.training.augmentation.fraction_of`.
    """

    config: Annotated[str, one_of(CONFIGS)]
    view: Annotated[str, one_of([*VIEWS, HIERARCHICAL])] = HIERARCHICAL
    target: Annotated[str, one_of(CATEGORIES)] | None = None
    bot: Annotated[str, one_of(BOTS)] | None = None
    train_fraction: float = Field(default=1.0, gt=0, le=1)


class ScratchOptions(Options):
    """The table ``[model.scratch]``: the size of a BERT encoder that starts from random weights.

    Its tokenizer is made from the training split.
    """

    hidden_size: Count = 128
    layers: Count = 2
    heads: Count = 4
    vocabulary: int = Field(default=6000, ge=5)  # the special tokens alone are five

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of heads {self.heads}")
        return self


class ModelOptions(Options):
    """The table ``[model]``: the method and the encoder.

    It has exactly one of ``backbone`` and ``scratch``.

    Attributes:
        method: ``checkpoint`` fine-tunes one encoder, ``hierarchical`` one for each category, on the view of that name.
            ``decoder`` trains adapters for a causal language model, see ``contradiction.training.decoder_trainer``.
        backbone: Hub id or folder of a pre-trained encoder, or of a chat model for the method decoder.
        base_model: Hub id of the model that a local backbone is a copy or a pruned form of, for the model card. Where
            the folder is missing, a detector of the method decoder loads this model.
        scratch: the size of an encoder with random weights, instead of a backbone.
        dropout: replaces the dropout rate of the backbone.
        freeze_embeddings: do not train the token embeddings, which is faster with a large vocabulary.
        nli_head: start the classification head from that of the backbone, an NLI model.
        max_length: the maximum number of tokens; longer inputs are cut from the left.
        num_layers, lora_rank: of the method decoder: so many layers of the backbone, from the first, by default all;
            and the rank of the adapters.
    """

    method: Literal["checkpoint", "hierarchical", "decoder"] = "checkpoint"
    backbone: str | None = None
    base_model: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")] | None = None
    scratch: ScratchOptions | None = None
    dropout: Fraction | None = None
    freeze_embeddings: bool = False
    nli_head: bool = False
    max_length: int = Field(default=256, ge=8)
    num_layers: Count | None = None
    lora_rank: Count = 16

    @model_validator(mode="after")
    def _has_one_start(self) -> Self:
        if (self.backbone is None) == (self.scratch is None):
            raise ValueError("needs either the key 'backbone' or the table [model.scratch]")
        return self


class OptimizerOptions(Options):
    """The table ``[optimizer]``: AdamW with a linear schedule.

    Epochs, batch size, peak rate and warm-up are by default those of the authors' code, which has no weight decay.

    Attributes:
        epochs: passes over the training rows.
        batch_size: the rows of a step, over all processes; for the method decoder, each 64 tokens, in passes of 1,024.
        learning_rate: the peak rate, after warm-up.
        head_learning_rate: the peak rate of the pooler and the classification head, by default the same.
        warmup_ratio: the fraction of the steps in which the rate rises.
        weight_decay: applies to all weights but biases and normalisation weights.
        checkpoint: which epoch is kept, the ``best`` by macro-F1 on validation or the ``last``.
    """

    epochs: Count = 5
    batch_size: Count = 32
    learning_rate: LearningRate = 5e-5
    head_learning_rate: LearningRate | None = None
    warmup_ratio: Fraction = 0.1
    weight_decay: Strength = 0.01
    checkpoint: Literal["best", "last"] = "best"


class LossOptions(Options):
    """The table ``[loss]``; see ``contradiction.training.losses``.

    Attributes:
        class_weights: ``balanced`` weighs classes alike.
        logit_adjustment: the strength of the adjustment for rare classes.
        ranking: the weight of a ranking loss over the rows of a context or a crossed quadruple.
        choice: choose among the replies to one chat by one softmax over them, instead of judging each by itself. The
            batch of each process must be a multiple of their number.
    """

    class_weights: Literal["balanced"] | None = None
    logit_adjustment: Strength = 0.0
    ranking: Strength = 0.0
    choice: bool = False


class DistillationOptions(Options):
    """The table ``[distillation]``: the teachers, and their weight beside the labels.

    Attributes:
        teachers: folders or Hub ids of trained detectors with the same labels; the student learns the mean of their
            probabilities, see :func:`contradiction.training.losses.soft_labels`.
        ngram_teacher_weight: the weight of a linear model of n-grams in that mean; 1 where there are no other teachers.
        weight: the weight of the teachers in the loss; the labels have the rest.
        temperature: softens the probabilities of teacher and student.
        transfer_per_row: the number of unlabelled conversations to make for each training row, which the student learns
            only from its teachers, see :func:`contradiction.training.augmentation.transfer_rows`.
    """

    teachers: list[str] = []
    ngram_teacher_weight: float = Field(default=0.0, ge=0, le=1)
    weight: float = Field(default=0.5, ge=0, le=1)
    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    transfer_per_row: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _weights_of_teachers_sum_to_one(self) -> Self:
        if self.ngram_teacher_weight and bool(self.teachers) == (self.ngram_teacher_weight == 1):
            right = "below 1, because the other teachers have the rest" if self.teachers else "1 without other teachers"
            raise ValueError(f"ngram_teacher_weight {self.ngram_teacher_weight:g} must be {right}")
        return self

    @property
    def has_teachers(self) -> bool:
        """Whether the student learns from teachers beside the labels."""
        return bool(self.teachers or self.ngram_teacher_weight)


class AugmentationOptions(Options):
    """The table ``[augmentation]``: further rows, see ``contradiction.training.augmentation``.

    Attributes:
        nli: a data repo that ``cdconv data nli`` wrote; its pairs become conversations.
        nli_pairs_per_row: the number of pairs for each training row.
        context_negatives: the number of copies of each row labelled history, with the first turn of another row and the
            label non-contradiction, and as many rows for each crossed quadruple. For the method decoder, the number of
            replies of other items that follow the first chat of each crossed item, with that label.
        crossed: read the training split of the crossed chats too.
        crossed_batches: only these batches of the training splits of ``crossed``, ``crossed-long`` and ``crossed-en``;
            by default all of ``crossed``, and for the method decoder all.
        other_endings: the share of the messages whose full stop at the end is added or removed.
        long_replies: the share of the rows in which other sentences are added to replies; with crossed chats or a
            ranking loss, the share of the groups of rows.
    """

    nli: str | None = None
    nli_pairs_per_row: Count = 1
    context_negatives: int = Field(default=0, ge=0)
    crossed: bool = False
    crossed_batches: list[str] = []
    other_endings: float = Field(default=0, ge=0, le=1)
    long_replies: float = Field(default=0, ge=0, le=1)
