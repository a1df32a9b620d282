"""The page of the metric's Space: paste labels, see the scores. `python app.py` serves it on this machine."""

import re
from typing import Any

import gradio as gr

# In the Space evaluate_metric.py is beside this file; in the repository it is in a folder of the same name.
from evaluate_metric import FIGURES, GROUPED, LABELS, compare, score  # type: ignore[attr-defined]  # mypy sees a package

EXAMPLE = {
    "task": "4-class",
    "references": "non-contradiction\nhistory\nrole-confusion\nhistory\nintra-sentence\nnon-contradiction",
    "predictions": "0, 3, 2, 0, 1, 0",
    "baseline": "",
}
SUMMARY = ["labels", "figure", "value", "95 % low", "95 % high"]
COMPARISON = ["labels", "figure", "predictions minus baseline", "95 % low", "95 % high", "p"]
PER_CLASS = ["label", "precision", "recall", "F1", "support"]
CORNER = "reference \\ prediction"
TITLES = {"macro_f1": "macro-F1"}  # of figures whose title is not their name

Table = list[list[str | int | float]]


def parse_labels(text: str) -> list[int | str]:
    """Reads labels, one a line or between commas; digits are class ids.

    Blank lines hold no label. Nothing between two commas is an empty label, which `score` refuses. Dropping it would
    shift all later labels by one row.
    """
    parts = re.split(r"\s*[,，\n]\s*", text.strip().rstrip(",，")) if text.strip() else []
    return [int(part) if re.fullmatch(r"-?[0-9]{1,9}", part) else part for part in parts]


def evaluate_text(
    task: str, references: str, predictions: str, baseline: str, resamples: float
) -> tuple[Table, Table, dict[str, Table | list[str]], Table]:
    """Scores pasted labels.

    Args:
        task: a task of `LABELS`, also with "-grouped" at its end.
        references: labels as text, see `parse_labels`.
        predictions: as many labels as text.
        baseline: as many labels of another detector as text; empty for no comparison.
        resamples: resamples of the bootstrap, a whole number from 1.

    Returns:
        Four tables: scores, classes and comparison in percent, and the confusion matrix in rows.

    Raises:
        gr.Error: the input is not valid; the message comes from `score` or `compare`.
    """
    truth, ours, others = parse_labels(references), parse_labels(predictions), parse_labels(baseline)
    try:
        result = score(truth, ours, task, bootstrap=int(resamples))
        contrast = compare(truth, ours, others, task, bootstrap=int(resamples)) if others else {}
    except ValueError as error:
        raise gr.Error(str(error), title="These labels cannot be scored", print_exception=False) from None
    summary: Table = [
        [name, _title(figure), *_percents(part[figure], *part["interval"][figure])]
        for name, part in _parts(task, result)
        for figure in FIGURES
    ]
    classes: Table = [
        [label, *_percents(row["precision"], row["recall"], row["f1"]), row["support"]]
        for label, row in result["per_class"].items()
    ]
    rows = zip(result["labels"], result["confusion_matrix"], strict=True)
    confusion: dict[str, Table | list[str]] = {
        "headers": [CORNER, *result["labels"]],
        "data": [[label, *counts] for label, counts in rows],
    }
    comparison: Table = []
    for name, part in _parts(task, contrast):
        tests = {"macro_f1": part["p_value"], "accuracy": part["mcnemar"]["p_value"]}
        for figure in FIGURES:
            key = f"{figure}_difference"
            p_value = round(tests[figure], 4) if figure in tests else ""
            comparison.append([name, _title(figure), *_percents(part[key], *part["interval"][key]), p_value])
    return summary, classes, confusion, comparison


def _parts(task: str, result: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The result on its own labels and, if there is one, on the merged labels, each with its name."""
    parts = [(task.removesuffix(GROUPED), result), ("merged to 2-class", result.get("two_class", {}))]
    return [(name, part) for name, part in parts if part]


def _title(figure: str) -> str:
    return TITLES.get(figure, figure.replace("_", " "))


def _percents(*fractions: float) -> list[float]:
    return [round(100 * fraction, 1) for fraction in fractions]


def build_page() -> gr.Blocks:
    """Lays out the page; its one endpoint is /score."""
    with gr.Blocks(title="CDConv metric", analytics_enabled=False) as page:
        gr.Markdown(
            "# CDConv metric\nAccuracy, macro-F1 and the figures of every class for contradictions in Chinese "
            "conversations. Paste class ids or label names, one a line or between commas. All values are in percent; "
            "the low and high ends are the 95 % interval of the bootstrap. The p of a comparison is that of the paired "
            "bootstrap for macro-F1, and of McNemar's exact test for accuracy."
        )
        task = gr.Dropdown([*LABELS, *(name + GROUPED for name in LABELS)], value=EXAMPLE["task"], label="Task")
        names = gr.Markdown(_describe(EXAMPLE["task"]))
        with gr.Row():
            references = gr.Textbox(EXAMPLE["references"], label="References", lines=8, max_lines=16)
            predictions = gr.Textbox(EXAMPLE["predictions"], label="Predictions", lines=8, max_lines=16)
            baseline = gr.Textbox(
                EXAMPLE["baseline"], label="Predictions of a baseline (optional)", lines=8, max_lines=16
            )
        resamples = gr.Slider(100, 10_000, value=2_000, step=100, label="Resamples of the bootstrap")
        button = gr.Button("Score", variant="primary")
        summary = gr.Dataframe(headers=SUMMARY, label="Scores", interactive=False)
        classes = gr.Dataframe(headers=PER_CLASS, label="Classes", interactive=False)
        confusion = gr.Dataframe(headers=[CORNER], label="Confusion matrix", interactive=False)
        comparison = gr.Dataframe(headers=COMPARISON, label="Comparison", interactive=False)
        task.change(_describe, task, names, api_visibility="private")
        button.click(
            evaluate_text,
            [task, references, predictions, baseline, resamples],
            [summary, classes, confusion, comparison],
            api_name="score",
            concurrency_limit=4,  # by default visitors would wait for each other
        )
    return page


def _describe(task: str) -> str:
    labels = enumerate(LABELS[task.removesuffix(GROUPED)])
    return "Labels: " + ", ".join(f"{index} = `{label}`" for index, label in labels)


if __name__ == "__main__":
    build_page().launch()
