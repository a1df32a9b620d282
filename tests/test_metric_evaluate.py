"""The metric through `evaluate`: the input it rejects, its loading, and its examples; and its page."""

import json
import os
import re

import numpy as np
import pytest
from helpers import processes
from helpers.rules import noisy, sample

from contradiction import cdconv
from contradiction.labels import CHECKLISTS, CROSSED, CROSSED_CONFIGS, task_of
from contradiction.paths import METRIC
from evaluate_metric.evaluate_metric import LABELS, CDConvMetric, compare, score


def run_offline(code) -> str:
    """Runs code in the checkout without network and with the cache of the tests, because an old build hides faults."""
    done = processes.run(code, cwd=METRIC.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


NAMES_4 = "0-3 or 'non-contradiction', 'intra-sentence', 'role-confusion', 'history'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predictions": [0, 1, 2, "hist"]}, f"predictions[3] is 'hist'; allowed for 4-class are {NAMES_4}"),
        ({"predictions": np.array([0.0, 1.0, 2.0, 3.0])}, "predictions[0] is 0.0; allowed"),
        ({"predictions": "history"}, "predictions is 'history'; allowed are lists or arrays"),
        ({"predictions": [0, 1]}, "lengths differ: 4 references, 2 predictions"),
        ({"references": [], "predictions": []}, "references and predictions are empty; at least one row is needed"),
        ({"task": "3-class"}, "the task is '3-class'; allowed are '2-class', '4-class', 'persona', 'nli', 'response'"),
        ({"bootstrap": -1}, "bootstrap is -1; allowed are whole numbers from 0"),
        ({"confidence_level": 0.0}, "confidence_level is 0.0; allowed are fractions above 0 and below 1"),
        ({"confidence_level": 1.0}, "confidence_level is 1.0; allowed"),
        ({"stratified": "yes"}, "stratified is 'yes'; allowed are True and False"),
    ],
)
def test_the_error_for_bad_input_names_the_allowed_values(arguments: dict, message: str) -> None:
    valid = {"references": [0, 1, 2, 3], "predictions": [0, 1, 2, 3]}
    with pytest.raises(ValueError, match=re.escape(message)):
        score(**{**valid, **arguments})
    with pytest.raises(ValueError, match=re.escape(message.split(" are empty")[0])):
        compare(**{**valid, "baseline_predictions": arguments.get("references", valid["references"]), **arguments})


def test_every_config_of_the_data_set_names_a_metric(tmp_path) -> None:
    configs = [*(config.name for config in cdconv.CDConv.BUILDER_CONFIGS), *CHECKLISTS, *CROSSED_CONFIGS]
    tasks = {name: CDConvMetric(config_name=name, cache_dir=str(tmp_path)).task for name in configs}
    assert tasks == {name: CROSSED if name in CROSSED_CONFIGS else task_of(name) for name in configs}


def test_a_bad_baseline_is_named_and_a_comparison_needs_resamples() -> None:
    with pytest.raises(ValueError, match=r"baseline_predictions\[1\] is 'no'"):
        compare([0, 1], [0, 1], [0, "no"])
    with pytest.raises(ValueError, match="bootstrap is 0; .*at least 1"):
        compare([0, 1], [0, 1], [0, 1], bootstrap=0)


@pytest.fixture
def metric(tmp_path) -> CDConvMetric:
    return CDConvMetric(cache_dir=str(tmp_path))


def test_batches_and_single_rows_give_the_same_result_as_one_call(metric: CDConvMetric) -> None:
    references = sample(60)
    predictions = noisy(references, 0.6, 1)
    names = [LABELS["4-class"][label] for label in predictions]
    expected = score(references, predictions, bootstrap=50)
    assert metric.compute(predictions=predictions, references=references, bootstrap=50) == expected
    for start in range(0, 60, 25):  # the kind of label may change from one batch to the next
        column = predictions if start else names
        metric.add_batch(predictions=column[start : start + 25], references=references[start : start + 25])
    assert metric.compute(bootstrap=50) == expected
    for name, reference in zip(names, references, strict=True):
        metric.add(prediction=name, reference=reference)
    assert metric.compute(bootstrap=50) == expected


def test_compute_returns_the_comparison(metric: CDConvMetric) -> None:
    references = sample(80)
    predictions, baseline = noisy(references, 0.7, 1), noisy(references, 0.5, 2)
    rows = {"predictions": predictions, "references": references, "baseline_predictions": baseline}
    result = metric.compute(**rows, bootstrap=30, seed=2, confidence_level=0.8, stratified=True)
    options = {"bootstrap": 30, "seed": 2, "confidence_level": 0.8, "stratified": True}
    assert result.pop("comparison") == compare(references, predictions, baseline, **options)
    assert result == score(references, predictions, **options)
    for unasked in (metric.compute(**rows), metric.compute(**rows, bootstrap=0)):
        assert "interval" not in unasked and unasked["comparison"] == compare(references, predictions, baseline)


@pytest.mark.parametrize("bad", [1.7, True, "1", None, 4, -1, "contradiction"])
def test_nothing_is_silently_converted_to_a_class_id(metric: CDConvMetric, bad: object) -> None:
    message = re.escape(f"is {bad!r}; allowed for 4-class are {NAMES_4}")
    with pytest.raises(ValueError, match=message):
        metric.compute(predictions=[0, bad], references=[0, 1])
    with pytest.raises(ValueError, match=message):
        metric.add_batch(predictions=[0, 1], references=[bad, 1])
    with pytest.raises(ValueError, match=message):
        metric.add(prediction=bad, reference=0)
    assert len(metric) == 0


def test_rows_survive_a_rejected_call(metric: CDConvMetric) -> None:
    metric.add_batch(predictions=[0, 1], references=[0, 3])
    for refused in (
        {"bootstrap": -1},
        {"baseline_predictions": [0, 1, 2]},
        {"predictions": [0], "references": [9]},
        {"predictions": [0]},
    ):
        with pytest.raises(ValueError, match=r"-1|lengths differ|is 9|references is None"):
            metric.compute(**refused)
    with pytest.raises(TypeError, match=r"average .* are predictions, references, baseline_predictions, "):
        metric.compute(average="macro")
    assert metric.compute(predictions=["history"], references=[3]) == score([0, 3, 3], [0, 1, 3])
    with pytest.raises(ValueError, match="no rows .*predictions and references"):
        metric.compute()
    with pytest.raises(ValueError, match="predictions and references are empty"):
        metric.compute(predictions=[], references=[])


LOADING = """
import json
import evaluate

rows = {"predictions": ["unrelated", "attributes"], "references": [0, 2]}
plain = {"predictions": [0, 3, 1], "references": [0, 3, 3]}
results = {}
results["bare"] = evaluate.load("evaluate_metric").compute(**plain)
results["dotted"] = evaluate.load("./evaluate_metric", "persona").compute(**rows)
results["grouped"] = evaluate.load("./evaluate_metric/evaluate_metric.py", "persona-grouped").compute(**rows)
results["in_memory"] = evaluate.load("evaluate_metric", keep_in_memory=True).compute(**plain)
ranked = {"predictions": [[0.1, 0.9], [0.7, 0.2]], "references": [1, 1]}
results["ranked"] = evaluate.load("evaluate_metric", "selection").compute(**ranked)
results["pairs"] = evaluate.load("evaluate_metric", "nli").compute(predictions=["neutral", 2], references=[1, 0])

both = {"four": evaluate.load("evaluate_metric"), "two": evaluate.load("evaluate_metric", "2-class")}
combined = evaluate.combine(both, force_prefix=True)
results["combined"] = combined.compute(predictions=[0, 1], references=[0, 1])
combined.add(prediction=0, reference=0)
combined.add_batch(predictions=[1], references=[1])
results["combined_added"] = combined.compute()

first, second = (
    evaluate.load("evaluate_metric", num_process=2, process_id=i, experiment_id="shared") for i in range(2)
)
from threading import Thread
share = Thread(target=lambda: second.add_batch(predictions=[1], references=[3]))
share.start()
first.add_batch(predictions=[0, 3], references=[0, 3])
share.join()
second.compute()
results["distributed"] = first.compute()

evaluate.save(SAVED, **results["bare"])
print(json.dumps(results))
"""


def test_evaluate_loads_the_metric_offline_under_every_spelling(tmp_path) -> None:
    saved = tmp_path / "saved.json"
    results = json.loads(run_offline(LOADING.replace("SAVED", repr(str(saved)))))
    plain, persona = score([0, 3, 3], [0, 3, 1]), score([0, 2], [0, 1], "persona")
    assert results["bare"] == results["in_memory"] == results["distributed"] == plain
    assert results["dotted"] == results["grouped"] == persona
    assert results["combined"] == results["combined_added"]
    assert results["ranked"] == {"n": 2, "r1": 0.5, "r2": 1.0, "mrr": 0.75}
    assert results["pairs"] == score([1, 0], [1, 2], "nli")
    assert (results["combined"]["four_macro_f1"], results["combined"]["two_macro_f1"]) == (1.0, 1.0)
    assert json.loads(saved.read_text(encoding="utf-8"))["macro_f1"] == plain["macro_f1"]


EXAMPLES = """
import doctest
from evaluate_metric import evaluate_metric

for results in (doctest.testmod(evaluate_metric), doctest.testfile("evaluate_metric/README.md", module_relative=False)):
    print(results.failed, results.attempted)
"""


def test_examples_in_the_text_are_true() -> None:
    report = run_offline(EXAMPLES)
    assert [line.split()[0] for line in report.splitlines()] == ["0", "0"], report
    assert all(int(line.split()[1]) >= 8 for line in report.splitlines())


def test_metric_file_imports_nothing_of_the_project_and_one_module_per_line() -> None:
    from evaluate.loading import get_imports

    file = METRIC / "evaluate_metric.py"
    needed = {name for kind, name, *_ in get_imports(str(file)) if kind == "library"}
    assert needed == {"collections", "dataclasses", "datasets", "evaluate", "numpy", "reprlib", "scipy", "typing"}
    assert not re.search(r"^import .*,", file.read_text(encoding="utf-8"), flags=re.MULTILINE)


# The page, served to an API client

ASK = """
import json, sys
sys.path.insert(0, {folder!r})
import app
from gradio_client import Client
from gradio_client.exceptions import AppError
page = app.build_page()
_, url, _ = page.launch(server_name="127.0.0.1", quiet=True, prevent_thread_lock=True)
client, answers = Client(url, verbose=False), []
for question in {questions!r}:
    try:
        answers.append([table["data"] for table in client.predict(*question, 200, api_name="/score")])
    except AppError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


def test_the_page_scores_pasted_labels_and_explains_refusals(tmp_path):
    questions = [
        ("4-class", "0\nhistory\n\n3,2\n", "non-contradiction，3,0 , 2", ""),
        ("persona-grouped", "0,1,2,3", "0,1,2,3", "0,0,0,0"),
        ("4-class", "0,1", "0,hist", ""),
        ("4-class", "0,1,2", "0,,2", ""),
        ("4-class", " \n", "", ""),
        ("2-class", "0,1", "0,1", "0,1,1"),
    ]
    env = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    code = ASK.format(folder=str(METRIC), questions=questions)
    # As on the Hub, `evaluate_metric` is the file beside the page. Elsewhere it is the package, imported before.
    done = processes.run(code, cwd=tmp_path, env=env, new_imports=True)
    assert done.returncode == 0, done.stderr
    scored, persona, *refused = json.loads(done.stdout.splitlines()[-1])
    summary, classes, confusion, comparison = scored
    assert [row[:3] for row in summary] == [
        ["4-class", "accuracy", 75.0],
        ["4-class", "macro-F1", 77.8],
        ["merged to 2-class", "accuracy", 75.0],
        ["merged to 2-class", "macro-F1", 73.3],
    ]
    assert all(low <= value <= high for _, _, value, low, high in summary)
    assert classes[3] == ["history", 100.0, 50.0, 66.7, 2]
    assert confusion[3] == ["history", 1, 0, 0, 1]
    assert comparison == []
    assert [row[:3] for row in persona[3]] == [["persona", "accuracy", 75.0], ["persona", "macro-F1", 90.0]]
    expected = ("predictions[1] is 'hist'", "predictions[1] is ''", "empty", "3 baseline_predictions")
    assert [part in message for part, message in zip(expected, refused, strict=True)] == [True] * 4
