"""The pages of a report: HTML, Markdown, JSON, and a badge."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contradiction.io.files import write_json, write_text
from contradiction.io.tables import Table, interval, p_value, percent, render, signed, signed_interval, with_interval
from contradiction.probing.report import ANY, FEW

LABEL_SOME = "Label a sample of the conversations before you rely on the figures."
GOOD, FAIR, BAD, GREY = "#2e7d32", "#b26a00", "#c62828", "#6e7781"  # of the badge


def cell(value: Mapping[str, Any] | None) -> str:
    """A share with its interval, in percent; the counts where there are too few conversations for a share."""
    if not value:
        return ""
    if value["share"] is None:
        return f"{value['called']} of {value['n']}"
    return with_interval(value["share"], (value["low"], value["high"]))


def rate(value: Mapping[str, Any]) -> str:
    """The figure of a bot, for its headline and its badge: the share that was called, or the counts."""
    return cell(value) if value["share"] is None else f"{percent(value['share'])} %"


def tables(report: Mapping[str, Any]) -> list[Table]:
    """The tables of the report: the bots by trigger, the kinds of each bot, and comparisons."""
    bots = report["bots"]
    header = ["trigger", *(f"{bot['bot']}{part}" for bot in bots for part in (": read", ", called (95 %)"))]
    rows = [
        [trigger, *(text for bot in bots for text in _read_and_called(found(bot, trigger)))]
        for trigger in (*report["triggers"], "all")
    ]
    kinds = [_kinds(bot) for bot in bots if bot["called"] and len(bot["called"]) > 1]
    comparisons = [differences(comparison) for comparison in report["comparisons"]]
    return [Table("Called a contradiction, by trigger", header, rows), *kinds, *comparisons]


def found(bot: Mapping[str, Any], trigger: str) -> Mapping[str, Any] | None:
    """The share of a trigger, or of ``all``; None where no conversation was read."""
    return (bot["called"] and bot["called"][ANY]) if trigger == "all" else bot["by_trigger"][trigger]


def _read_and_called(value: Mapping[str, Any] | None) -> tuple[str, str]:
    return f"{value['n']:,}" if value else "0", cell(value)


def _kinds(bot: Mapping[str, Any]) -> Table:
    rows = [("any kind" if kind == ANY else kind, cell(value)) for kind, value in bot["called"].items()]
    return Table(f"{bot['bot']}: kinds of contradiction", ("kind", "called (95 %)"), rows)


def differences(comparison: Mapping[str, Any]) -> Table:
    """A comparison of two bots, by trigger and over all of them."""
    rows = []
    for name, pair in [*comparison["by_trigger"].items(), ("all", comparison["all"])]:
        difference = ["", ""]
        if pair["share"] is not None:
            bounds = signed_interval((pair["low"], pair["high"]))
            difference = [f"{signed(pair['share'])} ({bounds})", p_value(pair["p_value"])]
        rows.append([name, f"{pair['n']:,}", str(pair["only_first"]), str(pair["only_second"]), *difference])
    first, second = comparison["first"], comparison["second"]
    header = ["trigger", "pairs", f"only {first}", f"only {second}", "difference (95 %)", "p"]
    return Table(f"{second} compared with {first}: called", header, rows)


def headlines(report: Mapping[str, Any]) -> list[str]:
    """What was found, a few sentences for each bot: called, estimated, not read."""
    return [f"{bot['bot']}: {' '.join([_found(bot), *estimated(bot), *left_out(bot)])}" for bot in report["bots"]]


def _found(bot: Mapping[str, Any]) -> str:
    if not bot["called"]:
        return "no conversation was read completely, so there is no share."
    value = bot["called"][ANY]
    bounds = "" if value["share"] is None else f" (95 %: {interval((value['low'], value['high']))})"
    conversations = "" if bounds else " conversations"
    return f"{rate(value)}{conversations} called a contradiction{bounds}; {who_judged(bot)}."


def who_judged(bot: Mapping[str, Any]) -> str:
    """How many conversations were read completely, and how many of them people labelled."""
    if bot["labelled"] >= bot["read"]:
        return f"{bot['read']:,} conversations labelled by people"
    people = f", {bot['labelled']:,} of them labelled by people" if bot["labelled"] else ""
    return f"{bot['read']:,} conversations read completely{people}"


def estimated(bot: Mapping[str, Any]) -> list[str]:
    """The estimate of the true share, or why there is none; nothing where the accuracy of the detector is unknown."""
    value = bot["estimate"]
    if not value:
        return []
    if value["share"] is None:
        return [f"No estimate of the true share, because {value['why']}."]
    return [f"Estimate of the true share: {cell(value)} %, from the detector's errors on {bot['measured_on']}."]


def left_out(bot: Mapping[str, Any]) -> list[str]:
    """What the figures of a bot leave out, a sentence each."""
    sentences = {
        "read_in_part": "replies were read in part and are not counted",
        "not_judged": "replies could not be judged and are not counted",
        "cut": "replies were cut at --max-tokens and may lack what contradicts the chat",
    }
    return [f"{bot[key]:,} {sentence}." for key, sentence in sentences.items() if bot[key]]


def needs_labels(report: Mapping[str, Any]) -> bool:
    """Whether labels of people would tell more about a bot."""
    return any(bot["called"] and bot["detector"] and bot["labelled"] < bot["read"] for bot in report["bots"])


def how_measured(report: Mapping[str, Any]) -> list[str]:
    """How the figures were measured, a paragraph each."""
    lines = [
        "“Called” is the share of the completely read conversations whose last reply was called a contradiction, by a "
        "person if there is a label, otherwise by the detector. --fail-above and the badge use this figure. Fewer than "
        f"{FEW} conversations are shown as counts. Conversations with the same opening widen the interval."
    ]
    for bot in report["bots"]:
        if not bot["detector"] or bot["labelled"] >= bot["read"]:
            continue
        method = "The error rates of this detector were not measured."
        if bot["estimate"]:
            method = f"“Estimate” corrects for the errors of the detector on {bot['measured_on']}, " + (
                "by double sampling (Tenenbein, 1970). It is valid if the labelled conversations are a random sample."
                if bot["measured_on_own"]
                else "by its sensitivity and specificity (Rogan and Gladen, 1978). It is valid if the detector has the "
                "same error rates on this bot."
            )
        lines.append(f"{bot['bot']} was judged by {bot['detector']}. {method}")
    if report["comparisons"]:
        lines.append(
            "Differences are between the same probes. p-values are of McNemar's exact test over openings; those of "
            "single triggers have Holm's correction."
        )
    return lines


def markdown(report: Mapping[str, Any]) -> str:
    """The report in Markdown, without the examples."""
    parts = ["# Does your bot contradict itself?\n", *(f"- {line}" for line in headlines(report))]
    parts += [f"\n{LABEL_SOME}"] if needs_labels(report) else []
    parts += ["", *(f"## {table.title}\n\n{table.markdown()}\n" for table in tables(report))]
    parts += ["## How it was measured\n", *(f"{line}\n" for line in how_measured(report))]
    return "\n".join(parts)


def html(report: Mapping[str, Any]) -> str:
    """The report as one page without other files."""
    first, *others = tables(report)
    return render(
        "probe_report.html", bots=report["bots"], triggers=[*report["triggers"], "all"], first=first, others=others,
        how=how_measured(report), cell=cell, interval=interval, rate=rate, found=found, who_judged=who_judged,
        estimated=estimated, left_out=left_out, percent=percent,
        label_some=LABEL_SOME if needs_labels(report) else "",
    )  # fmt: skip


def badge(bot: Mapping[str, Any]) -> str:
    """A badge as SVG: the share of a bot's conversations that was called a contradiction."""
    value = found(bot, "all")
    called = value["share"] if value else None
    colour = GREY if called is None else GOOD if called <= 0.05 else FAIR if called < 0.2 else BAD
    return render("probe_badge.svg", text=rate(value) if value else "not read", colour=colour)


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Writes ``report.html``, ``report.md``, ``report.json`` and ``badge.svg``, the badge of the last bot."""
    write_text(folder / "report.html", html(report))
    write_text(folder / "report.md", markdown(report))
    write_json(folder / "report.json", report)
    write_text(folder / "badge.svg", badge(report["bots"][-1]))
