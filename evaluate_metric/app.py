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
# Named, so that no font is fetched, and Chinese before the browser's own choice, which may be the Japanese glyphs.
FONTS = ["system-ui", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif"]
CSS = """
.cd-top h1 {font-size: 1.65rem; font-weight: 680}
.cd-top h1::before {content: "≠"; display: inline-block; width: 1.5em; margin-right: .45em; text-align: center;
  border-radius: .35em; background: var(--primary-700); color: #fff}
.cd-top p {max-width: 56rem; color: var(--body-text-color-subdued)}
footer .show-api {color: var(--body-text-color) !important}
"""
ENGLISH = {
    "lead": "# CDConv metric\nAccuracy, macro-F1 and the figures of every class for contradictions in Chinese "
    "conversations. Paste class ids or label names, one per line or separated by commas.",
    "task": "Task",
    "references": "References",
    "predictions": "Predictions",
    "baseline": "Predictions of a baseline (optional)",
    "resamples": "Resamples of the bootstrap",
    "score": "Score",
    "scores": "Scores",
    "classes": "Classes",
    "confusion": "Confusion matrix",
    "comparison": "Comparison",
    "notes": "All values are in percent. The low and high ends are the 95 % interval of the bootstrap. The p of a "
    "comparison is that of the paired bootstrap for macro-F1, and of McNemar's exact test for accuracy. "
    '`evaluate.load("USER/evaluate_metric", "4-class")` computes the same in Python.',
}
CHINESE = {
    "lead": "# CDConv 指标\n计算中文对话矛盾检测的准确率、宏平均 F1（macro-F1）和各类别的分数。"
    "请粘贴类别编号或标签名，每行一个，或用逗号分隔。",
    "task": "任务",
    "references": "参考标签",
    "predictions": "预测标签",
    "baseline": "基线的预测标签（选填）",
    "resamples": "自助法（bootstrap）重采样次数",
    "score": "计算",
    "scores": "得分",
    "classes": "各类别",
    "confusion": "混淆矩阵",
    "comparison": "比较",
    "notes": "数值均为百分比。low 与 high 是自助法 95% 置信区间的两端。"
    "比较的 p 值：宏平均 F1 用配对自助法，准确率用 McNemar 精确检验。"
    '在 Python 中用 `evaluate.load("USER/evaluate_metric", "4-class")`，结果相同。',
}
# The browser chooses. Gradio has texts of its own, some of which have the same names.
LOCALES = {"en": ENGLISH, **dict.fromkeys(("zh", "zh-CN", "zh-TW", "zh-HK"), CHINESE)}
WORDS = gr.I18n(**{name: {f"cdconv {key}": text for key, text in words.items()} for name, words in LOCALES.items()})
TITLES = {"macro_f1": "macro-F1"}  # of figures whose title is not their name

Table = list[list[str | int | float]]


def parse_labels(text: str) -> list[int | str]:
    """Reads labels, one per line or separated by commas; digits are class ids.

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
        gr.Markdown(_words("lead"), elem_classes="cd-top")
        with gr.Row():
            with gr.Column(scale=2):
                task = gr.Dropdown(
                    [*LABELS, *(name + GROUPED for name in LABELS)], value=EXAMPLE["task"], label=_words("task")
                )
                names = gr.Markdown(_describe(EXAMPLE["task"]))
                with gr.Row():
                    references, predictions = (
                        gr.Textbox(EXAMPLE[key], label=_words(key), lines=8, max_lines=16, min_width=120)
                        for key in ("references", "predictions")
                    )
                baseline = gr.Textbox(EXAMPLE["baseline"], label=_words("baseline"), lines=3, max_lines=16)
                resamples = gr.Slider(100, 10_000, value=2_000, step=100, label=_words("resamples"))
                button = gr.Button(_words("score"), variant="primary")
            with gr.Column(scale=3):
                summary, classes, confusion, comparison = (
                    gr.Dataframe(headers=headers, label=_words(key), interactive=False, show_label=True)
                    for key, headers in (
                        ("scores", SUMMARY),
                        ("classes", PER_CLASS),
                        ("confusion", [CORNER]),
                        ("comparison", COMPARISON),
                    )
                )
        gr.Markdown(_words("notes"))
        task.change(_describe, task, names, api_visibility="private")
        inputs = [task, references, predictions, baseline, resamples]
        outputs = [summary, classes, confusion, comparison]
        # By default visitors would wait for each other.
        button.click(evaluate_text, inputs, outputs, api_name="score", concurrency_limit=4)
        page.load(evaluate_text, inputs, outputs, api_visibility="private", concurrency_limit=4)
    return page


def launch(**options: Any) -> Any:
    """Serves the page in the look of the demo page; options as of Gradio's ``launch``."""
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONTS, font_mono=["ui-monospace", "monospace"])
    theme = theme.set(  # Gradio's blue under white, and its greys, have too little contrast
        block_label_text_color="*neutral_700",
        block_label_text_color_dark="*neutral_200",
        block_title_text_color="*neutral_700",
        block_title_text_color_dark="*neutral_200",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
        input_placeholder_color="*neutral_600",
        input_placeholder_color_dark="*neutral_300",
        body_background_fill="#f4f6f9",
        body_background_fill_dark="#12161d",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
    )
    return build_page().launch(theme=theme, css=CSS, i18n=WORDS, footer_links=["api"], ssr_mode=False, **options)


def _words(key: str) -> Any:
    return WORDS(f"cdconv {key}")


def _describe(task: str) -> str:
    labels = enumerate(LABELS[task.removesuffix(GROUPED)])
    return " · ".join(f"{index} = `{label}`" for index, label in labels)


if __name__ == "__main__":
    launch()
