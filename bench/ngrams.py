"""What a second opinion adds to a detector: that of n-grams, and that of other detectors.

    .venv/bin/python bench/ngrams.py e5-small-cdconv-soup e5-small-student --beside e5-small-cdconv
    .venv/bin/python bench/ngrams.py sentence-pair-4-class-grouped-e5-small-nli-seed42 --config 4-class-grouped

Takes kept evaluations, so nothing is judged again. The linear model of n-grams reads all four utterances, or those of
--view, and is fitted to the training split without class weights. Two opinions are probabilities averaged half and
half; each opinion, single or averaged, gets a decision rule chosen on validation. Prints test macro-F1 in percent, on
four classes and merged to two, and what the second opinion adds, with the 95 % interval of the paired bootstrap.
"""

import argparse

import numpy as np

from contradiction.data.splits import load_split
from contradiction.evaluation import results
from contradiction.inputs.views import VIEWS
from contradiction.io.tables import Table, percent, signed, signed_interval
from contradiction.labels import LABELS
from contradiction.methods.calibration import fit
from contradiction.methods.ngrams import linear_model
from evaluate_metric.evaluate_metric import compare, score

NAMES = LABELS["4-class"]
NGRAMS = "n-grams"
Splits = dict[str, np.ndarray]  # validation and test -> an array with a row for each row of the split


def main() -> None:
    """Parses the arguments, fits, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("detectors", nargs="+", help="names of kept evaluations of both splits")
    parser.add_argument("--beside", nargs="*", default=[], help="names of further second opinions")
    parser.add_argument("--config", default="4-class", choices=["4-class", "4-class-grouped"])
    parser.add_argument("--view", default="flatten", choices=[view for view in VIEWS if view != "nli"])
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--results", default=results.FOLDER)
    options = parser.parse_args()

    train, *others = (load_split(options.data, options.config, split) for split in ("train", "validation", "test"))
    rows = dict(zip(("validation", "test"), others, strict=True))
    truth = {split: np.array(each["label"]) for split, each in rows.items()}
    model = linear_model(VIEWS[options.view]).fit(list(train), train["label"])
    opinions = {NGRAMS: {split: model.predict_proba(list(each)) for split, each in rows.items()}}
    for each in results.kept(options.results):
        found = each.get("probabilities") or [[]]
        if each.get("config") == options.config and len(found[0]) == len(NAMES):
            opinions.setdefault(each["name"], {})[each["split"]] = np.array(found)
    for name in (*options.detectors, *options.beside):
        if opinions.get(name, {}).keys() != rows.keys():
            parser.error(f"{name}: {options.results} has no probabilities of {options.config} for both splits")

    said = decided(opinions[NGRAMS], truth)
    lines = [(NGRAMS, "", *figures(truth["test"], said), *[""] * 4)]
    for name in options.detectors:
        alone = decided(opinions[name], truth)
        for second in (NGRAMS, *options.beside):
            both = {split: (opinions[name][split] + opinions[second][split]) / 2 for split in rows}
            said = decided(both, truth)
            lines.append((name, second, *figures(truth["test"], alone), *figures(truth["test"], said, alone)))
    header = ("detector", "with", "4-class", "merged", "together", "added", "together, merged", "added")
    print(Table("", header, lines).markdown())


def decided(probabilities: Splits, truth: Splits) -> np.ndarray:
    """The class ids of the test rows, by a rule chosen on validation."""
    logs = {split: np.log(np.clip(each, 1e-9, 1)) for split, each in probabilities.items()}
    rule = fit(logs["validation"], truth["validation"], NAMES)
    return rule.decide(rule.calibrate(logs["test"], NAMES), NAMES)


def figures(truth: np.ndarray, said: np.ndarray, before: np.ndarray | None = None) -> tuple[str, ...]:
    """Macro-F1 on four classes and merged; each with what it is above ``before``, where that is given."""
    found = score(truth.tolist(), said.tolist(), "4-class")
    scores = [percent(each["macro_f1"]) for each in (found, found["two_class"])]
    if before is None:
        return tuple(scores)
    added = compare(truth.tolist(), said.tolist(), before.tolist(), "4-class")
    differences = [
        f"{signed(each['macro_f1_difference'])} ({signed_interval(each['interval']['macro_f1_difference'])})"
        for each in (added, added["two_class"])
    ]
    return scores[0], differences[0], scores[1], differences[1]


if __name__ == "__main__":
    main()
