"""What n-grams know that a detector does not: kept evaluations alone, and averaged with a linear model of n-grams.

    .venv/bin/python bench/ngrams.py e5-small-cdconv-soup e5-small-student --data cdconv

The linear model reads all four utterances, one by one, and is fitted to the training split. Its probabilities and the
kept ones of a detector are averaged, half and half, and the decision rule is chosen on validation, as for detectors.
Prints test macro-F1 in percent of n-grams alone and of each detector alone and so averaged, with the 95 % interval of
the paired bootstrap for what the n-grams add. Nothing is judged again.
"""

import argparse

import numpy as np

from contradiction import results
from contradiction.classifiers.calibration import fit
from contradiction.classifiers.label_classifier import calibrated
from contradiction.data.splits import load_split
from contradiction.labels import LABELS, merge_id
from contradiction.ngrams import linear_model
from contradiction.tables import Table, percent, signed, signed_interval
from contradiction.views import CONVERSATION
from evaluate_metric.evaluate_metric import compare, score

NAMES = LABELS["4-class"]
Splits = dict[str, np.ndarray]  # validation and test -> an array with a row for each row of the split


def main() -> None:
    """Parses the arguments, fits, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("detectors", nargs="+", help="names of kept evaluations of both splits")
    parser.add_argument("--config", default="4-class", choices=["4-class", "4-class-grouped"])
    parser.add_argument("--data", default="cdconv")
    parser.add_argument("--results", default=results.FOLDER)
    options = parser.parse_args()

    train, *others = (load_split(options.data, options.config, split) for split in ("train", "validation", "test"))
    rows = dict(zip(("validation", "test"), others, strict=True))
    model = linear_model(CONVERSATION).fit(list(train), train["label"])
    ngrams = {split: model.predict_proba(list(each)) for split, each in rows.items()}
    truth = {split: np.array(each["label"]) for split, each in rows.items()}
    kept = {
        (each["name"], each["split"]): np.array(each["probabilities"])
        for each in results.kept(options.results)
        if each.get("config") == options.config and len(each.get("probabilities", [[]])[0]) == len(NAMES)
    }
    alone = decided(ngrams, truth)
    lines = [("n-grams", *figures(truth["test"], alone), "", "", "", "")]
    for name in options.detectors:
        own: Splits = {split: kept[name, split] for split in rows}
        one = decided(own, truth)
        both = decided({split: (own[split] + ngrams[split]) / 2 for split in rows}, truth)
        lines.append(
            (name, *figures(truth["test"], one), *figures(truth["test"], both), *added(truth["test"], both, one))
        )
    header = ("detector", "4-class", "merged", "with n-grams", "merged", "added", "added, merged")
    print(Table("", header, lines).markdown())


def decided(probabilities: Splits, truth: Splits) -> np.ndarray:
    """The class ids of the test rows, by a rule chosen on validation."""
    logs = {split: np.log(np.clip(each, 1e-9, 1)) for split, each in probabilities.items()}
    rule = fit(logs["validation"], truth["validation"], NAMES)
    offsets = [rule.offsets[name] for name in NAMES]
    return (np.log(calibrated(rule, logs["test"], NAMES)) + offsets).argmax(axis=1)


def figures(truth: np.ndarray, said: np.ndarray) -> tuple[str, str]:
    """Macro-F1 on four classes and merged."""
    return (
        percent(score(truth.tolist(), said.tolist(), "4-class")["macro_f1"]),
        percent(score(*(merged(each) for each in (truth, said)), "2-class")["macro_f1"]),
    )


def added(truth: np.ndarray, said: np.ndarray, before: np.ndarray) -> tuple[str, str]:
    """By how much macro-F1 has grown, on four classes and merged, with intervals."""
    four = compare(truth.tolist(), said.tolist(), before.tolist(), "4-class")
    two = compare(*(merged(each) for each in (truth, said, before)), "2-class")
    return tuple(
        f"{signed(each['macro_f1_difference'])} ({signed_interval(each['interval']['macro_f1_difference'])})"
        for each in (four, two)
    )


def merged(labels: np.ndarray) -> list[int]:
    """Class ids with the three contradictions as one."""
    return [merge_id("4-class", int(each)) for each in labels]


if __name__ == "__main__":
    main()
