"""Does masked-language training on Chinese text repair a backbone that came through a 4-bit copy?

    python -m experiments.repair_backbone --backbone BACKBONE --data cdconv --nli OCNLI CMNLI CNLI \
        --chats kdconv.txt cped.txt crosswoz.txt --steps 1500 --out runs/repaired

The text is the training split of CDConv, the training batches of the crossed chats, both sides of the NLI training
pairs, and files of unlabelled chats (one utterance per line, an empty line between chats). The output is a backbone
folder for `cdconv train --backbone`. Train one NLI recipe from it and from the original backbone, and compare their
scores. A run that was stopped continues.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import (
    AutoTokenizer,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)
from transformers.modeling_outputs import MaskedLMOutput
from transformers.trainer_utils import get_last_checkpoint

from contradiction.data.corpora.crossed import Quadruple, read
from contradiction.data.nli import read as read_pairs
from contradiction.data.splits import load_split
from contradiction.errors import InputError
from contradiction.inputs.views import CONVERSATION


class MaskedTokens(BertForMaskedLM):
    """A masked language model that computes the scores of the masked tokens alone, a seventh of the whole output."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor) -> MaskedLMOutput:
        """The loss of a batch."""
        hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        masked = labels >= 0
        scores = self.cls(hidden[masked])
        return MaskedLMOutput(loss=torch.nn.functional.cross_entropy(scores.float(), labels[masked]), logits=None)


def texts(data: str, nli: Sequence[str], chats: Sequence[Path]) -> Iterator[str]:
    """Every conversation, chat, reply and NLI text once."""
    found: set[str] = set()
    for row in load_split(data, "4-class", "train"):
        found.add("\n".join(row[name] for name in CONVERSATION))
    for item in read("train"):
        if isinstance(item, Quadruple):
            found.update("\n".join(message["content"] for message in chat) for chat in (item.a, item.b))
            found.update((item.reply_a, item.reply_b))
    for corpus in nli:
        for premise, hypothesis, _ in read_pairs(corpus):
            found.update((premise, hypothesis))
    for file in chats:
        found.update(filter(None, file.read_text(encoding="utf-8").split("\n\n")))
    return iter(sorted(found))


def blocks(lines: Iterator[str], tokenizer: PreTrainedTokenizerBase, length: int) -> Dataset:
    """The texts, one after another with a separator between them, cut into blocks of ``length`` tokens."""
    ids: list[int] = []
    for line in lines:
        ids += [*tokenizer(line, add_special_tokens=False)["input_ids"], tokenizer.sep_token_id]
    body = length - 2
    cuts = (ids[start : start + body] for start in range(0, len(ids) - body, body))
    return Dataset.from_list([{"input_ids": [tokenizer.cls_token_id, *cut, tokenizer.sep_token_id]} for cut in cuts])


def main() -> None:
    """Parses the arguments, trains, saves the backbone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backbone", required=True, help="folder or Hub id of the encoder")
    parser.add_argument("--data", default="cdconv", help="the data repo of CDConv")
    parser.add_argument("--nli", nargs="*", default=[], help="files or data repos of NLI training pairs")
    parser.add_argument("--chats", nargs="*", type=Path, default=[], help="files of unlabelled chats")
    parser.add_argument("--steps", type=int, default=1500, help="batches of --batch-size blocks")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=128, help="tokens of a block")
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--out", type=Path, default=Path("runs/repaired"))
    options = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(options.backbone)
    model = MaskedTokens.from_pretrained(options.backbone, dtype="float32")  # with a new head
    rows = blocks(texts(options.data, options.nli, options.chats), tokenizer, options.length)
    print(f"{len(rows):,} blocks of {options.length} tokens", file=sys.stderr)
    work = options.out.with_name(options.out.name + ".work")
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(work),
            max_steps=options.steps,
            per_device_train_batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=options.steps // 20,
            weight_decay=0.01,
            logging_steps=100,
            save_steps=200,
            save_total_limit=1,
            seed=options.seed,
            bf16=True,
            use_cpu=not torch.cuda.is_available(),
            report_to="none",
        ),
        train_dataset=rows,
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(work)) if work.is_dir() else None)
    encoder: Any = model.base_model  # its declared type is that of any attribute
    encoder.save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"repair_backbone: {error}")
