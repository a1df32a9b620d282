"""Trains a causal detector on crossed chats, NLI pairs and CDConv, mixed.

usage: python -m experiments.train_decoder OUT --base BASE --nli NLI --data cdconv [--start DETECTOR]

BASE is a chat model such as Qwen/Qwen2.5-Coder-0.5B-Instruct, NLI a folder of `cdconv data nli`, and the data a folder
of `cdconv data build`. The run reads each crossed chat and each NLI pair at most once, and CDConv twice. An interrupted
run continues; `--steps` and `--decay-steps` may differ then. On two CPU cores with bf16 instructions, 16 layers of the
0.5 B model read about 500 tokens a second. `cdconv calibrate OUT/detector` then fits the decision rule.
"""

import argparse
import random
import shutil
from pathlib import Path

import torch
from datasets import load_dataset
from rich.progress import Progress

from contradiction.data.corpora.crossed import FOLDERS, read
from contradiction.data.splits import load_split
from contradiction.decoder.network import Network, Shape
from contradiction.io.files import write_json
from contradiction.labels import LABELS
from contradiction.methods.decoder import DecoderClassifier, load_reader
from contradiction.training import decoder_examples as examples
from contradiction.training.decoder_loop import Schedule, train_steps

EPOCHS = 2  # over CDConv


def main() -> None:
    """Reads the arguments, trains, and writes the detector."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", required=True, help="a causal language model in ChatML, a Hub id or a folder")
    parser.add_argument("--base-id", help="the Hub id that the detector names, if --base is a folder")
    parser.add_argument("--nli", required=True, help="a folder of NLI pairs")
    parser.add_argument("--data", required=True, help="a data repo of CDConv")
    parser.add_argument("--config", default="4-class", help="4-class or 4-class-grouped")
    parser.add_argument("--start", type=Path, help="the folder of a detector to start from")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--most", type=int, nargs=3, metavar="N", help="at most so many crossed and long items, and premises"
    )
    parser.add_argument("--steps", type=int, help="stop earlier")
    parser.add_argument("--decay-steps", type=int, default=500, help="at the end, over which the rate falls to zero")
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    reader, rng = load_reader(given.base), random.Random(given.seed)
    pairs = load_dataset(given.nli, "nli", split="train")
    names = pairs.features["label"].names
    labelled = ((row["premise"], row["hypothesis"], names[row["label"]]) for row in pairs if row["label"] >= 0)
    sources = [
        *([examples.of_item(item, reader) for item in read("train", folder)] for folder in FOLDERS.values()),
        examples.of_premises(labelled, reader),
    ]
    if given.most:
        sources = [rng.sample(source, min(most, len(source))) for source, most in zip(sources, given.most, strict=True)]
    rows = load_split(given.data, given.config, "train")
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows.to_list():
        label = rows.features["label"].names[row["label"]]
        groups.setdefault((row["u1"], row["b1"], row["u2"]), []).append({**row, "label": label})
    contexts = [examples.of_context(group, reader) for group in groups.values()]
    chosen = contexts * EPOCHS + [example for source in sources for example in source]
    shape = Shape(given.base, given.layers, given.rank)
    dtype = torch.bfloat16 if given.precision == "bf16" else torch.float32
    network = Network.load(given.start, shape, dtype, merged=False) if given.start else Network(shape, dtype)
    with Progress() as progress:
        task = progress.add_task("steps", total=None)
        train_steps(
            network, chosen, given.out, Schedule(decay_steps=given.decay_steps), seed=given.seed, steps=given.steps,
            on_step=lambda step, total, _: progress.update(task, completed=step, total=total),
        )  # fmt: skip
    detector = given.out / "detector"
    shutil.rmtree(detector, ignore_errors=True)
    detector.mkdir()
    network.save(detector)
    described = {"base": given.base_id or given.base, "layers": given.layers, "rank": given.rank}
    write_json(detector / DecoderClassifier.MARKER, {**described, "labels": list(LABELS["4-class"])})
    print(f"{detector}: next, cdconv calibrate {detector}")


if __name__ == "__main__":
    main()
