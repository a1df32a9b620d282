"""The page of the metric's Space: paste labels, see the scores. `python app.py` serves it on this machine."""

import re
from typing import Any

import gradio as gr

# In the Space evaluate_metric.py lies beside this file; seen from the repository it is in a package of that name.
from evaluate_metric import GROUPED, LABELS, compare, score  # type: ignore[attr-defined]  # so mypy sees the package

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
FIGURES = {"accuracy": "accuracy", "macro_f1": "macro-F1"}

Table = list[list[str | int | float]]


def parse_labels(text: str) -> list[int | str]:
    """Reads labels that stand one a line or between commas; digits are class ids.

    Blank lines carry no label. Nothing between two commas does count, as an empty label that `score` refuses: to drop
    it would move all later labels by one row.
    """
    parts = re.split(r"\s*[,，\n]\s*", text.strip().rstrip(",，")) if text.strip() else []
    return [int(part) if re.fullmatch(r"-?[0-9]{1,9}", part) else part for part in parts]


def evaluate_text(
    task: str, references: str, predictions: str, baseline: str, resamples: float
) -> tuple[Table, Table, dict[str, Table | list[str]], Table]:
    """Scores pasted labels.

    Args:
        task: a task of `LABELS`, or its "-grouped" twin.
        references: labels as text, see `parse_labels`.
        predictions: labels as text, as many.
        baseline: labels of another detector as text, as many; empty for no comparison.
        resamples: of the bootstrap, a whole number from 1.

    Returns:
        The four tables, in percent: scores, classes, confusion matrix (counts, with headers of its own), comparison.

    Raises:
        gr.Error: the input is not valid; the message is that of `score` or `compare`.
    """
    truth, ours, others = parse_labels(references), parse_labels(predictions), parse_labels(baseline)
    try:
        result = score(truth, ours, task, bootstrap=int(resamples))
        contrast = compare(truth, ours, others, task, bootstrap=int(resamples)) if others else {}
    except ValueError as error:
        raise gr.Error(str(error), title="These labels cannot be scored", print_exception=False) from None
    summary: Table = [
        [name, figure, *_percents(part[key], *part["interval"][key])]
        for name, part in _parts(task, result)
        for key, figure in FIGURES.items()
    ]
    classes: Table = [
        [label, *_percents(each["precision"], each["recall"], each["f1"]), each["support"]]
        for label, each in result["per_class"].items()
    ]
    rows = zip(result["labels"], result["confusion_matrix"], strict=True)
    confusion: dict[str, Table | list[str]] = {
        "headers": [CORNER, *result["labels"]],
        "data": [[label, *counts] for label, counts in rows],
    }
    comparison: Table = []
    for name, part in _parts(task, contrast):
        for key, figure in FIGURES.items():
            ends = part["interval"][f"{key}_difference"]
            p_value = (part if key == "macro_f1" else part["mcnemar"])["p_value"]
            comparison.append([name, figure, *_percents(part[f"{key}_difference"], *ends), round(p_value, 4)])
    return summary, classes, confusion, comparison


def _parts(task: str, result: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The result on its own labels and, where there is one, on the merged ones, each with its name."""
    parts = [(task.removesuffix(GROUPED), result), ("merged to 2-class", result.get("two_class", {}))]
    return [(name, part) for name, part in parts if part]


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
            concurrency_limit=4,  # by default one visitor would wait for the other
        )
    return page


def _describe(task: str) -> str:
    labels = enumerate(LABELS[task.removesuffix(GROUPED)])
    return "Labels: " + ", ".join(f"{index} = `{label}`" for index, label in labels)


if __name__ == "__main__":
    build_page().launch()
