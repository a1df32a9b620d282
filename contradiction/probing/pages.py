"""The pages of a report: HTML, Markdown, JSON, and a badge."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from contradiction.io.files import write_json, write_text
from contradiction.io.tables import Table, interval, percent, render, signed, signed_interval
from contradiction.labels import CATEGORIES
from contradiction.probing.shares import ANY

UNKNOWN = "not known"
NO_BETTER = "the detector is not surely better than chance"
TOO_FEW = "the detector called fewer than its false alarms alone would explain, so it errs in another way on this bot"
TOO_MANY = (
    "the detector called more than it would if every conversation held a contradiction, so it errs in another way on "
    "this bot"
)


def cell(value: Mapping[str, Any] | None, unit: str = "") -> str:
    """A share with its interval, in percent; the unit follows each share."""
    if not value:
        return ""
    if value["estimate"] is None:
        if value["low"] > 0:
            return f"{UNKNOWN} (at least {percent(value['low'])}{unit})"
        return UNKNOWN if value["high"] == 1 else f"{UNKNOWN} (at most {percent(value['high'])}{unit})"
    return f"{percent(value['estimate'])}{unit} ({interval((value['low'], value['high']))})"


def tables(report: Mapping[str, Any]) -> list[Table]:
    """The tables of the report: contradictions of any kind for all bots, the kinds of each bot, and comparisons."""
    kinds = [_kinds(bot, report["triggers"]) for bot in report["bots"] if bot["all"] and len(bot["all"]) > 1]
    return [_any_kind(report), *kinds, *map(_differences, report["comparisons"])]


def _any_kind(report: Mapping[str, Any]) -> Table:
    bots = report["bots"]
    header = ["trigger", *(f"{bot['bot']}{part}" for bot in bots for part in (": n", ", called", ", share (95 %)"))]
    rows = []
    for trigger in (*report["triggers"], "all"):
        cells = [trigger]
        for bot in bots:
            shares = (bot["all"] if trigger == "all" else bot["by_trigger"][trigger]) or {}
            value = shares.get(ANY)
            cells += [f"{value['n']:,}", percent(value["apparent"]), cell(value)] if value else ["0", "", ""]
        rows.append(cells)
    return Table("Contradictions of any kind", header, rows)


def _kinds(bot: Mapping[str, Any], triggers: Sequence[str]) -> Table:
    parts = {trigger: bot["by_trigger"][trigger] or {} for trigger in triggers} | {"all": bot["all"]}
    rows = [[trigger, *(cell(shares.get(kind)) for kind in CATEGORIES)] for trigger, shares in parts.items()]
    return Table(f"Kinds of contradiction: {bot['bot']}", ("trigger", *CATEGORIES), rows)


def _differences(comparison: Mapping[str, Any]) -> Table:
    rows = [
        [
            name, f"{pair['n']:,}", str(pair["only_first"]), str(pair["only_second"]),
            f"{signed(pair['difference'])} ({signed_interval((pair['low'], pair['high']))})"
            + ("" if pair["corrected"] else " of the calls"),
            f"{pair.get('adjusted', pair['p_value']):.4f}",
        ]
        for name, pair in [*comparison["by_trigger"].items(), ("all", comparison["all"])]
    ]  # fmt: skip
    first, second = comparison["first"], comparison["second"]
    header = ["trigger", "pairs", f"only {first}", f"only {second}", "difference (95 %)", "p"]
    return Table(f"{second} compared with {first}", header, rows)


def markdown(report: Mapping[str, Any]) -> str:
    """The report in Markdown."""
    parts = ["# Does your bot contradict itself?"]
    parts += [f"- {line}" for line in headlines(report)]
    parts += ["", *(f"## {table.title}\n\n{table.markdown()}\n" for table in tables(report))]
    for bot in report["bots"]:
        for kind, rows in bot["examples"].items():
            if rows:
                parts.append(f"## The most {kind} contradictions: {bot['bot']}\n")
            for example in rows:
                probability = f", P = {example['probability']:.2f}" if example["probability"] else ""
                parts.append(f"{example['label']}, {example['trigger']}{probability}:\n")
                marks = {"judged": " **(judged)**", "evidence": " (contradicted)", "": ""}
                for message in example["messages"]:
                    content = "\n  ".join(message["content"].splitlines())  # all lines belong to the item of the list
                    parts.append(f"- {message['role']}: {content}{marks[message['mark']]}")
                parts.append("")
    parts += ["## How it was measured\n", *how_measured(report)]
    return "\n".join(parts) + "\n"


def headlines(report: Mapping[str, Any]) -> list[str]:
    """A sentence for each bot."""
    lines = []
    for bot in report["bots"]:
        if not bot["all"]:
            lines.append(f"{bot['bot']}: no reply could be judged.")
            continue
        value, replies = bot["all"][ANY], bot["replies"]
        if value["estimate"] is None:
            why = TOO_MANY if value["low"] > 0 else NO_BETTER if value["high"] == 1 else TOO_FEW
            lines.append(
                f"{bot['bot']}: the share in {value['n']:,} judged conversations is {cell(value, ' %')}; {why}."
            )
            continue
        line = (
            f"{bot['bot']}: {cell(value, ' %')} of {value['n']:,} judged conversations end in a contradiction; of a "
            f"hundred judged replies {consistent(replies)} are consistent."
        )
        if bot["detector"] and bot["accuracy"].get(ANY):
            line += (
                f" That is an estimate: the detector called {value['called']:,}, and the share is corrected for its "
                f"errors on {bot['measured_on']}. Label a sample of the conversations before you rely on it."
            )
        lines.append(line)
    return lines


def consistent(replies: Mapping[str, Any]) -> str:
    """How many of a hundred replies are consistent, with the interval."""
    if replies["consistent"] is None:
        if replies["high"] < 100:
            return f"at most {replies['high']:.1f}"
        return UNKNOWN if replies["low"] == 0 else f"at least {replies['low']:.1f}"
    return f"{replies['consistent']:.1f} ({replies['low']:.1f}–{replies['high']:.1f})"


def warnings(report: Mapping[str, Any]) -> list[str]:
    """What went wrong in the runs, a sentence for each bot."""
    return [_cut(bot) for bot in report["bots"] if bot["cut"]]


def _cut(bot: Mapping[str, Any]) -> str:
    return (
        f"{bot['bot']}: {bot['cut']:,} of its replies were cut at the limit of --max-tokens. A cut reply may lack what "
        "contradicts the chat."
    )


def how_measured(report: Mapping[str, Any]) -> list[str]:
    """What the figures rest on, a sentence each."""
    lines = []
    for bot in report["bots"]:
        name, accuracy = bot["bot"], bot["accuracy"].get(ANY)
        if bot["detector"] is None:
            lines.append(f"{name}: the labels are those of people, so nothing is corrected; Wilson intervals.")
        elif not accuracy:
            lines.append(
                f"{name}: how often {bot['detector']} is right was not measured. The shares are those of its verdicts, "
                "not of contradictions."
            )
        else:
            errors = (
                f"sensitivity {percent(accuracy['sensitivity'])} %, specificity {percent(accuracy['specificity'])} %"
            )
            lines.append(
                f"{name}: judged by {bot['detector']} ({errors} on {bot['measured_on']}). The shares are corrected for "
                "that (Rogan and Gladen, 1978), and their intervals carry both errors. They hold if the detector is as "
                "often right on this bot as on those rows."
            )
        if bot["cut"]:
            lines.append(_cut(bot))
        if bot["not_judged"]:
            lines.append(f"{name}: {bot['not_judged']:,} replies could not be judged and are left out.")
    if any(bot["accuracy"] for bot in report["bots"]):
        lines.append(
            "“Called” is the share of conversations that the detector calls a contradiction, uncorrected. “Not known”: "
            f"{NO_BETTER} at telling this kind. “Not known (at most …)”: {TOO_FEW}; label a sample of these "
            "conversations. The bound holds if no call is a false alarm. “Not known (at least …)”: the detector called "
            "more than it would if every conversation held a contradiction. The bound holds if it misses none."
        )
    if report["comparisons"]:
        lines.append(
            "Differences are between the same probes. They are corrected if both shares are known, and otherwise those "
            "of the calls. p-values are of a permutation test over openings; those of single triggers are corrected by "
            "Holm's method."
        )
    return lines


def html(report: Mapping[str, Any]) -> str:
    """The report as one page without other files."""
    first, *others = tables(report)
    return render(
        "probe_report.html",
        bots=report["bots"],
        triggers=[*report["triggers"], "all"],
        any=ANY,
        headlines=headlines(report),
        first=first,
        others=others,
        how=how_measured(report),
        cell=cell,
        consistent=consistent,
    )


GOOD, FAIR, BAD, GREY = "#2e7d32", "#b26a00", "#c62828", "#6e7781"
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {value}">
<title>{label}: {value}</title>
<rect width="{left}" height="20" rx="3" fill="#444c56"/>
<rect x="{left}" width="{right}" height="20" rx="3" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_middle}" y="14">{label}</text><text x="{right_middle}" y="14">{value}</text></g></svg>
"""


def badge(value: Mapping[str, Any]) -> str:
    """A badge as SVG: the share of contradictions of a bot, with its interval."""
    label, text = "contradicts itself", cell(value, " %")
    left, right = 7 * len(label), 7 * len(text) + 6
    rate = value["estimate"]
    colour = GREY if rate is None else GOOD if rate < 0.05 else FAIR if rate < 0.2 else BAD
    return BADGE.format(
        label=escape(label), value=escape(text), colour=colour, width=left + right, left=left, right=right,
        left_middle=left / 2, right_middle=left + right / 2,
    )  # fmt: skip


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Writes ``report.html``, ``report.md``, ``report.json`` and ``badge.svg``, the badge of the last bot."""
    write_text(folder / "report.html", html(report))
    write_text(folder / "report.md", markdown(report))
    write_json(folder / "report.json", report)
    if report["bots"][-1]["all"]:
        write_text(folder / "badge.svg", badge(report["bots"][-1]["all"][ANY]))
