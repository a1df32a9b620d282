"""What does a second model add to a detector? Averages it with n-grams, and with other detectors.

    python -m experiments.second_opinion e5-small-cdconv-soup e5-small-student --with e5-small-cdconv
    python -m experiments.second_opinion sentence-pair-4-class-grouped-e5-small-nli-seed42 \
        --config 4-class-grouped

The script reads saved evaluations, so nothing is judged again. The linear model of n-grams reads all four utterances,
or those of --view, and is fitted to the training split without class weights. Probabilities are averaged half and half.
A decision rule is chosen on validation for each model and each average. The script prints test macro-F1 in percent on
four classes and merged to two, and the gain by the second model with its 95 % interval of the paired bootstrap.
"""

import argparse

import numpy as np

from contradiction.data.splits import load_split
from contradiction.evaluation import results
from contradiction.inputs.views import TWO_TEXTS, VIEWS
from contradiction.io.tables import Table, percent, signed, signed_interval
from contradiction.labels import LABELS
from contradiction.methods.calibration import fit
from contradiction.methods.ngrams import LinearModel
from contradiction.paths import RESULTS
from evaluate_metric.evaluate_metric import compare, score

NAMES = LABELS["4-class"]
NGRAMS = "n-grams"
Splits = dict[str, np.ndarray]  # validation and test -> an array with a row for each row of the split


def main() -> None:
    """Parses the arguments, fits, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("detectors", nargs="+", help="names of saved evaluations on both splits")
    parser.add_argument("--with", dest="others", nargs="*", default=[], help="names of further second models")
    parser.add_argument("--config", default="4-class", choices=["4-class", "4-class-grouped"])
    parser.add_argument("--view", default="flatten", choices=[view for view in VIEWS if view not in TWO_TEXTS])
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--results", default=RESULTS)
    options = parser.parse_args()

    train, validation, test = (
        load_split(options.data, options.config, name) for name in ("train", "validation", "test")
    )
    rows = {"validation": validation, "test": test}
    truth = {split: np.array(part["label"]) for split, part in rows.items()}
    model = LinearModel(VIEWS[options.view]).fit(list(train), train["label"])
    probabilities = {NGRAMS: {split: model.predict_proba(list(part)) for split, part in rows.items()}}
    names = (*options.detectors, *options.others)
    for result in results.load(options.results, config=options.config, names=names):
        if "probabilities" in result:
            probabilities.setdefault(result["name"], {})[result["split"]] = np.array(result["probabilities"])
    for name in names:
        if probabilities.get(name, {}).keys() != rows.keys():
            parser.error(f"{name}: {options.results} has no probabilities of {options.config} for both splits")

    lines = [(NGRAMS, "", *figures(truth["test"], predict(probabilities[NGRAMS], truth)), *[""] * 4)]
    for name in options.detectors:
        alone = predict(probabilities[name], truth)
        for second in (NGRAMS, *options.others):
            mean = {split: (probabilities[name][split] + probabilities[second][split]) / 2 for split in rows}
            together = predict(mean, truth)
            lines.append((name, second, *figures(truth["test"], alone), *figures(truth["test"], together, alone)))
    header = ("detector", "with", "4-class", "merged", "together", "gain", "together, merged", "gain")
    print(Table("", header, lines).markdown())


def predict(probabilities: Splits, truth: Splits) -> np.ndarray:
    """The class ids of the test rows, by a rule chosen on validation."""
    logs = {split: np.log(np.clip(values, 1e-9, 1)) for split, values in probabilities.items()}
    rule = fit(logs["validation"], truth["validation"], NAMES)
    return rule.decide(rule.calibrate(logs["test"], NAMES), NAMES)


def figures(truth: np.ndarray, predictions: np.ndarray, before: np.ndarray | None = None) -> tuple[str, ...]:
    """Macro-F1 on four classes and merged; with ``before``, each is followed by the gain over these predictions."""
    metrics = score(truth.tolist(), predictions.tolist(), "4-class")
    scores = [percent(result["macro_f1"]) for result in (metrics, metrics["two_class"])]
    if before is None:
        return tuple(scores)
    gain = compare(truth.tolist(), predictions.tolist(), before.tolist(), "4-class")
    differences = [
        f"{signed(result['macro_f1_difference'])} ({signed_interval(result['interval']['macro_f1_difference'])})"
        for result in (gain, gain["two_class"])
    ]
    return scores[0], differences[0], scores[1], differences[1]


if __name__ == "__main__":
    main()
