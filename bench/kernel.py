"""What the settings of kernel ridge regression are worth on validation.

    .venv/bin/python bench/kernel.py --embedder intfloat/multilingual-e5-small

Fits it with other widths of the Gaussian, other ridges and other weights of the utterances, one changed at a time, on
the training split of 4-class and of 4-class-grouped. Prints the mean over the labels of the average precision, in
percent, and the log loss, on validation; neither needs a decision rule. Without --embedder n-grams are all that is
compared.
"""

import argparse

import numpy as np
from sklearn.metrics import average_precision_score, log_loss

from contradiction.data.splits import load_split
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import Table, percent
from contradiction.methods import kernel_regression

CONFIGS = ("4-class", "4-class-grouped")
CHOICES = {
    "GAMMA": (0.1, 0.2, 0.4),
    "RIDGE": (0.5, 3.0),
    "WEIGHTS": ({}, {"b2": 2.0}, {"u1": 0.5, "b2": 3.0}),
}


def main() -> None:
    """Parses the arguments, fits, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--embedder", help="folder or Hub id of an encoder that is not fine-tuned")
    parser.add_argument("--data", default="cdconv")
    options = parser.parse_args()

    embed = Embedder(options.embedder) if options.embedder else None
    rows = {
        (config, split): load_split(options.data, config, split)
        for config in CONFIGS
        for split in ("train", "validation")
    }
    lines = []
    for name, value in [("as it is", None), *((name, value) for name, values in CHOICES.items() for value in values)]:
        before = getattr(kernel_regression, name, None)
        if value is not None:
            setattr(kernel_regression, name, value)
        line = [name if value is None else f"{name} = {value}"]
        for config in CONFIGS:
            train, validation = rows[config, "train"], rows[config, "validation"]
            model = kernel_regression.KernelRegression(CONVERSATION, embed).fit(list(train), train["label"])
            said, truth = model.predict_proba(list(validation)), np.array(validation["label"])
            precision = np.mean([average_precision_score(truth == label, said[:, label]) for label in model.classes_])
            line += [percent(float(precision)), f"{log_loss(truth, said):.3f}"]
        lines.append(line)
        if value is not None:
            setattr(kernel_regression, name, before)
        print(" · ".join(line), flush=True)
    columns = [f"{config}, {figure}" for config in CONFIGS for figure in ("average precision", "log loss")]
    print(Table("", ("settings", *columns), lines).markdown())


if __name__ == "__main__":
    main()
