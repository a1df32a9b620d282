"""Trains a causal detector: adapters and heads on trees of chats, in one or several processes; a run can resume."""

import logging
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import ProjectConfiguration, reduce, tqdm

from contradiction.data.corpora.crossed import Pair, Quadruple, read_batch
from contradiction.data.splits import CHINESE, has_label, labelled, load_split
from contradiction.errors import InputError
from contradiction.inference.network import BASE_VARIABLE, Network, Shape, base_of
from contradiction.inputs.trees import ChatReader, fill_rows, pack
from contradiction.inputs.views import CHINESE_ONLY_KEY, CONVERSATION
from contradiction.io import files
from contradiction.io.hub import HubUnavailableError, fetch_file
from contradiction.labels import CONTRADICTION, NON_CONTRADICTION
from contradiction.methods.decoder import BASE_MODEL, BASE_WEIGHTS, DecoderClassifier, load_reader, shape_of
from contradiction.methods.loading import fetch, name_with_digest
from contradiction.training import decoder_examples as examples
from contradiction.training.accelerators import accelerator_for, deterministic, processes, tracking
from contradiction.training.augmentation import contradicts, drawn_pairs, labelled_rows
from contradiction.training.decoder_examples import WEIGHTS, Example, losses
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_options import OptimizerOptions
from contradiction.training.run import Run, Trained, crossed_files, explain_write_errors, languages_read

LENGTHS = {512: 2, 1024: 1}  # tokens of a row -> the rows of a forward pass
TOKENS = 64  # of a training row, on average: a step reads so many times the batch size of the recipe
STATE = "state/state.pt"
SAVE_STEPS = 50

# Gets the number of steps done, of all steps, and the loss and the learning rate of the last one.
OnStep = Callable[[int, int, float, float], Any]


def train_decoder(run: Run) -> Trained:
    """Trains low-rank adapters and heads for a causal language model.

    It reads the labelled rows as often as the recipe has epochs, and each crossed chat and each NLI pair once. The
    backbone is a chat model, or a detector of this method to continue from.

    Raises:
        InputError: the recipe asks for fp16, the backbone is no chat model or has another base or other adapters, no
            row has a label, there are too few NLI pairs, a step cannot be shared, the disk is full, or the tracker
            cannot be started.
    """
    recipe, main = run.recipe, processes().is_main_process
    if recipe.precision == "fp16":
        raise InputError(f"{recipe.name}: precision 'fp16' cannot be used with the method 'decoder'")
    accelerator = accelerator_for(
        recipe, log_with=run.track, project_config=ProjectConfiguration(logging_dir=str(run.tracked))
    )
    adapter, shape, description = _start(run)
    place = base_of(shape.base)
    if main and Path(place).name.lower() != Path(shape.base).name.lower():  # it may be another model
        logging.getLogger(__name__).warning("%s is read from %s, which %s names", shape.base, place, BASE_VARIABLE)
    chosen = examples_of(run, shape.base)  # before the base, which may be large
    dtype = torch.float32 if recipe.precision == "fp32" else torch.bfloat16
    torch.manual_seed(recipe.seed)
    network = Network.load(adapter, shape, dtype, merged=False) if adapter else Network(shape, dtype)
    network.check_base(description[BASE_WEIGHTS] or network.base_weights)
    network.to(processes().device)
    bar = tqdm(desc=f"training {recipe.name}", unit="step", dynamic_ncols=True, mininterval=1)

    def show(step: int, total: int, loss: float, rate: float) -> None:
        bar.total, bar.n = total, step
        bar.set_postfix(loss=f"{loss:.3f}", lr=f"{rate:.1e}")
        accelerator.log({"train/loss": loss, "train/learning_rate": rate}, step=step)

    with bar, deterministic(run.deterministic), tracking(accelerator, run), explain_write_errors(run.work):
        seconds = train_steps(
            network, chosen, run.work / STATE, recipe.optimizer, seed=recipe.seed,
            save_steps=run.save_steps or SAVE_STEPS, on_step=show,
        )  # fmt: skip
        if main:
            with files.new_folder(run.model) as folder:
                network.save(folder)
                files.write_json(folder / DecoderClassifier.MARKER, description | {BASE_WEIGHTS: network.base_weights})
    parameters = sum(weight.numel() for weight in network.parameters())
    result = {"base_folder": name_with_digest(place)} if place != shape.base else {}
    return Trained(parameters, seconds / 60, str(network.score.weight.device), result)


def _start(run: Run) -> tuple[Path | None, Shape, dict[str, Any]]:
    """The folder of the adapters to go on from, if any; the shape, and the description of the detector to make."""
    recipe, backbone = run.recipe, str(run.recipe.model.backbone)
    adapter, before = None, dict[str, Any]()
    with suppress(HubUnavailableError):  # a base in the cache
        if fetch_file(backbone, DecoderClassifier.MARKER):
            adapter = fetch(backbone)
    layers, rank = recipe.model.num_layers, recipe.model.lora_rank
    if adapter:
        before = DecoderClassifier.describe(adapter)
        shape = shape_of(before, adapter)
        if (layers or shape.layers, rank) != (shape.layers, shape.rank):
            raise InputError(
                f"{backbone}: has adapters of rank {shape.rank} on {shape.layers} layers; set model.lora_rank and "
                "model.num_layers to these"
            )
    else:
        # The detector names its base, which must be found from any directory.
        base = str(Path(backbone).resolve()) if Path(backbone).is_dir() else backbone
        shape = Shape(base, layers, rank, len(recipe.labels))
    chinese_only = languages_read(recipe, run.data) == [CHINESE] and before.get(CHINESE_ONLY_KEY, True)
    own = {"labels": list(recipe.labels), BASE_WEIGHTS: before.get(BASE_WEIGHTS), CHINESE_ONLY_KEY: chinese_only}
    return adapter, shape, {**asdict(shape), BASE_MODEL: before.get(BASE_MODEL) or recipe.model.base_model, **own}


def examples_of(run: Run, base: str) -> list[Example]:
    """What a run reads, with the tokens of a base model."""
    recipe, reader = run.recipe, load_reader(base)
    options, rows = recipe.augmentation, labelled(labelled_rows(run.splits["train"], recipe))
    if not len(rows):
        raise InputError(f"{recipe.name}: no training row has a label")
    contexts: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows.to_list():
        context = tuple(row[column] for column in CONVERSATION[:-1])
        contexts.setdefault(context, []).append({**row, "label": recipe.labels[row["label"]]})
    chosen = [examples.of_context(each, reader) for each in contexts.values()] * recipe.optimizer.epochs
    chosen += _crossed_examples(recipe, reader)
    if options.nli:
        pairs, draw = load_split(options.nli, "nli", "train"), np.random.default_rng(recipe.seed)
        pairs = drawn_pairs(pairs, len(rows), options.nli_pairs_per_row, draw)
        names = pairs.features["label"].names
        labels = [
            CONTRADICTION if flag else names[label] if has_label(label) else NON_CONTRADICTION
            for label, flag in zip(pairs["label"], contradicts(pairs), strict=True)
        ]
        chosen += examples.of_premises(zip(pairs["premise"], pairs["hypothesis"], labels, strict=True), reader)
    return chosen


def _crossed_examples(recipe: Recipe, reader: ChatReader) -> list[Example]:
    """Each item of the crossed chats, with ``context_negatives`` replies of others of its corpus."""
    draw, count = random.Random(recipe.seed), recipe.augmentation.context_negatives
    items: dict[Path, list[Quadruple | Pair]] = {}
    for file in crossed_files(recipe):
        items.setdefault(file.parent, []).extend(read_batch(file))
    return [
        examples.of_item(item, reader, _unrelated(corpus, number, count, draw))
        for corpus in items.values()
        for number, item in enumerate(corpus)
    ]


def _unrelated(corpus: Sequence[Quadruple | Pair], number: int, count: int, draw: random.Random) -> list[str]:
    """Consistent replies of other items of a corpus, none of which is also a reply of the item with this number."""
    own = {row.reply for row in corpus[number].judged()}
    others = (corpus[(number + draw.randrange(1, len(corpus))) % len(corpus)] for _ in range(count))
    replies = (draw.choice([row.reply for row in other.judged() if row.label == NON_CONTRADICTION]) for other in others)
    return [reply for reply in replies if reply not in own]


def passes(chosen: Sequence[Example], seed: int) -> list[tuple[int, list[list[Example]]]]:
    """Forward passes over examples, shuffled: the length of a row, and rows of examples.

    Examples that are longer than the longest row are left out, which is logged.
    """
    shuffled = [*chosen]
    random.Random(seed).shuffle(shuffled)
    result = []
    shorter = 0
    for length, count in LENGTHS.items():
        fitting = [each for each in shuffled if shorter < len(each.tree) <= length]
        rows = fill_rows([len(each.tree) for each in fitting], length)
        batches = [rows[first : first + count] for first in range(0, len(rows), count)]
        result += [(length, [[fitting[index] for index in row] for row in batch]) for batch in batches]
        shorter = length
    left_out = sum(len(each.tree) > shorter for each in shuffled)
    if left_out and processes().is_main_process:
        logging.getLogger(__name__).warning("%d examples of more than %d tokens are left out", left_out, shorter)
    random.Random(seed).shuffle(result)
    return result


def train_steps(
    network: Network,
    chosen: Sequence[Example],
    file: Path,
    options: OptimizerOptions,
    *,
    seed: int = 0,
    save_steps: int = SAVE_STEPS,
    on_step: OnStep | None = None,
) -> float:
    """Trains a network on one pass over examples, and saves its state in a file.

    A run that was interrupted continues from the file if the examples, the options and the seed are the same. The
    adapters, which are not merged, are stored in the number format of the network, and moved in float32. The heads have
    the rate ``head_learning_rate``. ``on_step`` is called after each step. Several processes share the forward passes
    of each step and add up their gradients, so they take the same steps as one.

    Returns:
        The seconds of all steps, also of those before an interruption.

    Raises:
        InputError: the loss is not finite, or a step has fewer forward passes than there are processes.
    """
    order = passes(chosen, seed)
    accumulation = max(1, round(options.batch_size * TOKENS / max(LENGTHS)))
    shared = processes()
    if accumulation < shared.num_processes:
        least = math.ceil(shared.num_processes * max(LENGTHS) / TOKENS)
        raise InputError(
            f"batch_size {options.batch_size}: each of {shared.num_processes} processes needs a pass of "
            f"{max(LENGTHS):,} tokens per step; set it to {least} or more"
        )
    total = math.ceil(len(order) / accumulation)
    warmup = math.ceil(options.warmup_ratio * total)
    state = _State(network, options)
    network.train()
    for step in range(state.load(file), total):
        begun = time.perf_counter()
        loss = torch.zeros((), device=network.score.weight.device)
        of_step = order[step * accumulation : (step + 1) * accumulation]
        for length, rows in of_step[shared.process_index :: shared.num_processes]:
            packed = pack([[each.tree for each in row] for row in rows], length)
            flat = [each for row in rows for each in row]
            found = losses(network, network(packed), list(zip(packed.offsets, flat, strict=True)))
            part = torch.stack([WEIGHTS[name] * value for name, value in found.items()]).sum() / len(of_step)
            part.backward()
            loss += part.detach()
        value = reduce(loss, "sum").item()
        if not math.isfinite(value):
            raise InputError(f"step {step + 1}: the loss is {value}; a lower learning_rate may help")
        # As in transformers' linear schedule.
        factor = min(1.0, (step + 1) / (warmup + 1), (total - step) / max(1, total - warmup))
        state.step(factor)
        state.seconds += time.perf_counter() - begun
        if on_step:
            on_step(step + 1, total, value, factor * options.learning_rate)
        if shared.is_main_process and ((step + 1) % save_steps == 0 or step + 1 == total):
            state.save(file, step + 1)
    return state.seconds


class _State:
    """The trained weights in float32, their optimizer, and the seconds that they have been trained."""

    def __init__(self, network: Network, options: OptimizerOptions) -> None:
        self.seconds, self._network = 0.0, network
        for name, weight in network.named_parameters():
            weight.requires_grad_("lora_" in name or not name.startswith("body."))
        self._weights = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        self._masters = {name: weight.detach().float().clone() for name, weight in self._weights.items()}
        rates = {True: options.learning_rate, False: options.head_learning_rate or options.learning_rate}
        self._optimizer = torch.optim.AdamW(
            [
                {"params": [self._masters[name] for name in self._weights if name.startswith("body.") == adapter],
                 "lr": rate, "peak": rate}
                for adapter, rate in rates.items()
            ],
            betas=(0.9, 0.99), weight_decay=options.weight_decay,
        )  # fmt: skip

    def step(self, factor: float) -> None:
        """One step at this fraction of the peak rates, with the sum of the gradients of all processes."""
        for group in self._optimizer.param_groups:
            group["lr"] = factor * group["peak"]
        for name, weight in self._weights.items():
            # The step leaves a head alone that it does not train. The processes may differ in which these are.
            trained = reduce(torch.tensor(float(weight.grad is not None), device=weight.device), "sum").item()
            gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
            self._masters[name].grad = reduce(gradient.float(), "sum") if trained else None
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self._masters.values(), 1.0)
        self._optimizer.step()
        self._copy()

    def load(self, file: Path) -> int:
        """Continues from a file; returns the number of steps done, 0 where there is none."""
        if not file.is_file():
            return 0
        saved = torch.load(file, map_location="cpu", weights_only=True)
        self._network.check_base(saved.get(BASE_WEIGHTS, self._network.base_weights))
        for name, weight in saved["weights"].items():
            self._masters[name].copy_(weight)
        self._optimizer.load_state_dict(saved["optimizer"])
        self._copy()
        self.seconds = float(saved["seconds"])
        return int(saved["step"])

    def save(self, file: Path, step: int) -> None:
        with files.new_file(file) as partial:
            values = {"step": step, "seconds": self.seconds, BASE_WEIGHTS: self._network.base_weights}
            torch.save({**values, "weights": self._masters, "optimizer": self._optimizer.state_dict()}, partial)

    def _copy(self) -> None:
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(self._masters[name])
