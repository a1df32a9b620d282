"""The pages of a report: HTML, Markdown, JSON, and a badge."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from contradiction.io.files import write_json, write_text
from contradiction.io.tables import Table, interval, p_value, percent, render, signed, signed_interval, with_interval
from contradiction.probing.shares import ANY, FEW

LABEL_SOME = "Label a sample of the conversations before you rely on the figures."


def cell(value: Mapping[str, Any] | None) -> str:
    """A share with its interval, in percent; the counts where there are too few conversations for a share."""
    if not value:
        return ""
    if value["share"] is None:
        return f"{value['called']} of {value['n']}" if "n" in value else "–"
    return with_interval(value["share"], (value["low"], value["high"]))


def rate(value: Mapping[str, Any]) -> str:
    """The figure of a bot, for its headline and its badge: the share that was called, or the counts."""
    return cell(value) if value["share"] is None else f"{percent(value['share'])} %"


def tables(report: Mapping[str, Any]) -> list[Table]:
    """The tables of the report: the bots by trigger, the kinds of each bot, and comparisons."""
    bots = report["bots"]
    header = ["trigger", *(f"{bot['bot']}{part}" for bot in bots for part in (": read", ", called (95 %)"))]
    rows = []
    for trigger in (*report["triggers"], "all"):
        values = [
            bot["called"] and bot["called"][ANY] if trigger == "all" else bot["by_trigger"][trigger] for bot in bots
        ]
        rows.append(
            [trigger, *(text for value in values for text in (f"{value['n']:,}" if value else "0", cell(value)))]
        )
    kinds = [_kinds(bot) for bot in bots if bot["called"] and (len(bot["called"]) > 1 or bot["estimate"])]
    return [
        Table("Called a contradiction, by trigger", header, rows),
        *kinds,
        *map(_differences, report["comparisons"]),
    ]


def _kinds(bot: Mapping[str, Any]) -> Table:
    header = ["kind", "called (95 %)", "estimate (95 %)"][: 3 if bot["estimate"] else 2]
    rows = [
        ["any kind" if kind == ANY else kind, cell(value), cell(bot["estimate"].get(kind))][: len(header)]
        for kind, value in sorted(bot["called"].items(), key=lambda item: item[0] == ANY)
    ]
    return Table(f"{bot['bot']}: kinds of contradiction", header, rows)


def _differences(comparison: Mapping[str, Any]) -> Table:
    rows = [
        [
            name, f"{pair['n']:,}", str(pair["only_first"]), str(pair["only_second"]),
            *(["", ""] if pair["share"] is None else [
                f"{signed(pair['share'])} ({signed_interval((pair['low'], pair['high']))})", p_value(pair["p_value"]),
            ]),
        ]
        for name, pair in [*comparison["by_trigger"].items(), ("all", comparison["all"])]
    ]  # fmt: skip
    first, second = comparison["first"], comparison["second"]
    header = ["trigger", "pairs", f"only {first}", f"only {second}", "difference (95 %)", "p"]
    return Table(f"{second} compared with {first}: called", header, rows)


def headlines(report: Mapping[str, Any]) -> list[str]:
    """What was found, a few sentences for each bot: called, estimated, not read."""
    return [f"{bot['bot']}: {' '.join([_found(bot), *_estimated(bot), *left_out(bot)])}" for bot in report["bots"]]


def _found(bot: Mapping[str, Any]) -> str:
    if not bot["called"]:
        return "no conversation was read whole, so no share is known."
    value = bot["called"][ANY]
    bounds = "" if value["share"] is None else f" (95 %: {interval((value['low'], value['high']))})"
    return f"{rate(value)}{'' if bounds else ' conversations'} called a contradiction{bounds}{_by(bot)}."


def _by(bot: Mapping[str, Any]) -> str:
    if bot["detector"] is None or bot["labelled"] >= bot["read"]:
        return f", by labels of people; {bot['read']:,} conversations"
    people = f", {bot['labelled']:,} of them by people" if bot["labelled"] else ""
    return f"; {bot['read']:,} conversations were judged{people}"


def _estimated(bot: Mapping[str, Any]) -> list[str]:
    value = bot["estimate"].get(ANY)
    if not value:
        return []
    if value["share"] is None:
        return [f"No estimate of the true share, because {value['why']}."]
    return [f"Estimate of the true share: {cell(value)} %, by the detector's errors on {bot['measured_on']}."]


def left_out(bot: Mapping[str, Any]) -> list[str]:
    """What the figures of a bot leave out, a sentence each."""
    lines = []
    if bot["read_in_part"]:
        lines.append(f"{bot['read_in_part']:,} replies were read in part only and are not counted.")
    if bot["not_judged"]:
        lines.append(f"{bot['not_judged']:,} replies could not be judged and are not counted.")
    if bot["cut"]:
        lines.append(f"{bot['cut']:,} replies were cut at --max-tokens and may lack what contradicts the chat.")
    return lines


def needs_labels(report: Mapping[str, Any]) -> bool:
    """Whether labels of people would tell more about a bot."""
    return any(bot["called"] and bot["detector"] and bot["labelled"] < bot["read"] for bot in report["bots"])


def how_measured(report: Mapping[str, Any]) -> list[str]:
    """What the figures rest on, a sentence or two each."""
    lines = [
        "“Called” is a share of the conversations that were read whole: those whose last reply was called a "
        "contradiction, by a person where there is a label, otherwise by the detector. --fail-above and the badge use "
        "this figure. "
        f"Fewer than {FEW} conversations are shown as counts. Conversations with the same opening widen the interval."
    ]
    for bot in report["bots"]:
        if bot["detector"] and bot["estimate"] and bot["measured_on"]:
            method = (
                "what share of the called, and of the other conversations, people found to be contradictions (double "
                "sampling; Tenenbein, 1970). It holds if people labelled a random sample of each."
                if bot["measured_on_own"]
                else "its sensitivity and specificity (Rogan and Gladen, 1978). It holds if the detector is as often "
                "right on this bot as there."
            )
            lines.append(
                f"{bot['bot']} was judged by {bot['detector']}. “Estimate” corrects its errors on {bot['measured_on']} "
                f"by {method}"
            )
        elif bot["detector"] and bot["labelled"] < bot["read"]:
            lines.append(f"{bot['bot']} was judged by {bot['detector']}. How often it is right was not measured.")
    if report["comparisons"]:
        lines.append(
            "Differences are between the same probes, in what was called. p-values are of McNemar's exact test over "
            "openings; those of single triggers are corrected by Holm's method."
        )
    return lines


def markdown(report: Mapping[str, Any]) -> str:
    """The report in Markdown, without the examples."""
    parts = ["# Does your bot contradict itself?\n", *(f"- {line}" for line in headlines(report))]
    parts += [f"\n{LABEL_SOME}"] if needs_labels(report) else []
    parts += ["", *(f"## {table.title}\n\n{table.markdown()}\n" for table in tables(report))]
    parts += ["## How it was measured\n", *(f"{line}\n" for line in how_measured(report))]
    return "\n".join(parts)


def meta(example: Mapping[str, Any]) -> str:
    """The label of an example, its trigger, and by whom it was called."""
    probability = f", {percent(example['probability'], 0)} %" if example["probability"] else ""
    by = "labelled by a person" if example["by"] == "person" else f"called by the detector{probability}"
    return f"{example['label']} · {example['trigger']} · {by}"


def html(report: Mapping[str, Any]) -> str:
    """The report as one page without other files."""
    first, *others = tables(report)
    return render(
        "probe_report.html", bots=report["bots"], triggers=[*report["triggers"], "all"], any=ANY, first=first,
        others=others, how=how_measured(report), cell=cell, rate=rate, left_out=left_out, meta=meta, percent=percent,
        label_some=LABEL_SOME if needs_labels(report) else "",
    )  # fmt: skip


GOOD, FAIR, BAD, GREY = "#2e7d32", "#b26a00", "#c62828", "#6e7781"
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {value}">
<title>{label}: {value}</title>
<rect width="{left}" height="20" rx="3" fill="#444c56"/>
<rect x="{left}" width="{right}" height="20" rx="3" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_middle}" y="14">{label}</text><text x="{right_middle}" y="14">{value}</text></g></svg>
"""


def badge(bot: Mapping[str, Any]) -> str:
    """A badge as SVG: the share of a bot's conversations that was called a contradiction."""
    value = bot["called"] and bot["called"][ANY]
    label, text = "called contradictions", rate(value) if value else "not read"
    left, right = 7 * len(label), 7 * len(text) + 10
    called = value and value["share"]
    colour = GREY if called is None else GOOD if called <= 0.05 else FAIR if called < 0.2 else BAD
    return BADGE.format(
        label=escape(label), value=escape(text), colour=colour, width=left + right, left=left, right=right,
        left_middle=left / 2, right_middle=left + right / 2,
    )  # fmt: skip


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Writes ``report.html``, ``report.md``, ``report.json`` and ``badge.svg``, the badge of the last bot."""
    write_text(folder / "report.html", html(report))
    write_text(folder / "report.md", markdown(report))
    write_json(folder / "report.json", report)
    write_text(folder / "badge.svg", badge(report["bots"][-1]))
