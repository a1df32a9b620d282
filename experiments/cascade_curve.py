"""A cascade of the shipped detector and a judge of known quality, on validation rows of CDConv.

    python -m experiments.cascade_curve cdconv.txt --right 0.9 --limit 800

The judge is scripted: a server on this machine that speaks OpenAI's protocol, knows the labels, and errs on a
set share of the rows. So the curve shows what a cascade gains from such a judge, not how good any language model is.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from datasets import ClassLabel, Dataset, Features, Value

from contradiction import cdconv
from contradiction.evaluation import cascades
from contradiction.io.files import write_json
from contradiction.labels import LABELS
from contradiction.methods.base import Classifier
from contradiction.methods.loading import load_classifier
from contradiction.paths import CHECKOUT, SHIPPED

sys.path.insert(0, str((CHECKOUT or Path()) / "tests"))
from helpers.chat_server import ChatServer  # the servers of the tests
from helpers.scripted_judge import scripted


def main() -> None:
    """Measures one curve and prints it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="the released raw file")
    parser.add_argument("--right", type=float, nargs="+", default=[0.9], help="the share of rows on which it is right")
    parser.add_argument("--limit", type=int, default=2332, help="validation rows, the first ones of the split")
    parser.add_argument("--detector", default=str(SHIPPED))
    arguments = parser.parse_args()
    rows = cdconv.official_split(cdconv.read_rows(arguments.source))["validation"][: arguments.limit]
    detector = load_classifier(arguments.detector)
    for right in arguments.right:
        steps, usage = measure(detector, rows, right)
        table = cascades.table(steps, len(rows))
        print(table.markdown())
        print(f"judge right on {right:.0%}: {usage}\n", flush=True)


def measure(detector: Classifier, rows: list, right: float) -> tuple[list[cascades.Step], dict | None]:
    """The curve with a judge that is right on a share of the rows, and the requests to the judge."""
    texts = dict.fromkeys(cdconv.UTTERANCES, Value("string"))
    features = Features(**texts, label=ClassLabel(names=list(LABELS["4-class"])))
    chosen = Dataset.from_list([{name: row[name] for name in features} for row in rows], features=features)
    with tempfile.TemporaryDirectory() as folder, ChatServer(scripted(rows, right)) as server:
        os.environ.update(server.environment)
        write_json(Path(folder) / "judge.json", {"model": "scripted"})
        judge = load_classifier(folder)
        return cascades.curve(detector, judge, chosen), judge.usage()


if __name__ == "__main__":
    main()
