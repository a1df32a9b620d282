"""What are the settings of kernel ridge regression worth? Fits it with other settings and scores it on validation.

    python -m experiments.kernel_settings --embedder intfloat/multilingual-e5-small

One setting is changed at a time: the width of the Gaussian, the ridge, and the weights of the utterances. It is fitted
to the training splits of 4-class and of 4-class-grouped. The script prints the mean over the labels of the average
precision, in percent, and the log loss, on validation; neither needs a decision rule. Without --embedder only n-grams
are compared.
"""

import argparse

import numpy as np
from sklearn.metrics import average_precision_score, log_loss

from contradiction.data.splits import load_split
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.io.tables import Table, percent
from contradiction.methods import kernel

CONFIGS = ("4-class", "4-class-grouped")
SETTINGS = {
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
    changes = [(name, value) for name, values in SETTINGS.items() for value in values]
    lines = []
    for name, value in [("as it is", None), *changes]:
        default = getattr(kernel, name, None)
        if value is not None:
            setattr(kernel, name, value)
        line = [name if value is None else f"{name} = {value}"]
        for config in CONFIGS:
            train, validation = (load_split(options.data, config, split) for split in ("train", "validation"))
            model = kernel.KernelRegression(CONVERSATION, embed).fit(list(train), train["label"])
            probabilities, truth = model.predict_proba(list(validation)), np.array(validation["label"])
            precisions = [average_precision_score(truth == label, probabilities[:, label]) for label in model.classes_]
            line += [percent(float(np.mean(precisions))), f"{log_loss(truth, probabilities):.3f}"]
        lines.append(line)
        if value is not None:
            setattr(kernel, name, default)
        print(" · ".join(line), flush=True)
    columns = [f"{config}, {figure}" for config in CONFIGS for figure in ("average precision", "log loss")]
    print(Table("", ("settings", *columns), lines).markdown())


if __name__ == "__main__":
    main()
