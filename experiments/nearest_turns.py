"""Could a detector read only the nearest earlier turns of a long chat? How often the contradicted one is among them.

    python -m experiments.nearest_turns --embedder ENCODER

A frozen encoder ranks the earlier turns (user and bot message) by their cosine similarity to the turn that is judged.
It reads the long crossed chats of training and validation.
"""

import argparse

import numpy as np

from contradiction.data.corpora.crossed import Quadruple, batches, read
from contradiction.inference.embedding import Embedder
from contradiction.io.tables import Table, percent

LONG = 6  # bot messages before the reply, from which reading fewer turns saves time


def main() -> None:
    """Parses the arguments, ranks, prints the recall at each number of turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", default="intfloat/multilingual-e5-small", help="encoder of sentence vectors")
    parser.add_argument("--most", type=int, default=5, help="turns that are read at most")
    options = parser.parse_args()

    style = {batch.name: batch.style for batch in batches().values()}
    items = [item for split in ("train", "validation") for item in read(split) if isinstance(item, Quadruple)]
    embed = Embedder(options.embedder)
    ranks = []
    for item in items:
        bots = [place for place, message in enumerate(item.a) if message["role"] == "assistant"]
        if style[item.batch] != "long" or item.evidence not in bots or len(bots) < LONG:
            continue
        for chat, reply in ((item.a, item.reply_b), (item.b, item.reply_a)):
            turns = [f"{chat[place - 1]['content']} {chat[place]['content']}" for place in bots]
            vectors = embed([*turns, f"{chat[-1]['content']} {reply}"])
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            similarity = vectors[:-1] @ vectors[-1]
            ranks.append(int((similarity > similarity[bots.index(item.evidence)]).sum()))
    rows = [(str(count), percent(float(np.mean(np.array(ranks) < count)))) for count in range(1, options.most + 1)]
    print(f"{len(ranks)} contradicting replies in chats of {LONG} earlier turns and more\n")
    print(Table("", ("turns read", "the contradicted one is among them, %"), rows).markdown())


if __name__ == "__main__":
    main()
