"""The commands ``cdconv probe ...``: makes a live bot contradict itself, and reports how often it did."""

import json
import os
import time
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from contradiction.commands.common import (
    SECONDS_BETWEEN_LINES,
    SHIPPED,
    BackendOption,
    DeviceOption,
    MaxTurnsOption,
    ModelOption,
    PriorOption,
    RevisionOption,
    ScanOption,
    ThresholdOption,
    WindowingOption,
    counting,
    existing_model,
    given_settings,
    progress,
    say,
    show,
)
from contradiction.errors import InputError
from contradiction.inputs.windows import MAX_TURNS
from contradiction.io.endpoint import KEY, MAX_TOKENS

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector
    from contradiction.probing.bots import Bot
    from contradiction.probing.plan import Estimate
    from contradiction.probing.run import Outcome

app = typer.Typer(help="Talks to a live bot and reports how often it contradicts itself.", no_args_is_help=True)
PER_CALL = 1.0  # seconds, for the estimate

FailAboveOption = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Exit with 1 if the share of contradictions is above this rate, for instance 0.1."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show errors only.")]


@app.command("run")
def run_probe(
    out: Annotated[Path, typer.Option(help="The folder to write. The same command continues a killed run.")],
    endpoint: Annotated[
        str | None, typer.Option(help="Probe an OpenAI-compatible endpoint: its address including /v1.")
    ] = None,
    endpoint_model: Annotated[str, typer.Option(help="The model that the endpoint serves.")] = "default",
    key_variable: Annotated[
        str | None, typer.Option(help="The environment variable with the key of --endpoint.", show_default=KEY)
    ] = None,
    chat_model: Annotated[
        str | None, typer.Option(help="Probe a chat model of transformers: a folder or Hub id.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="Probe a Python function, module:function; it takes messages and returns a text.")
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(help='Probe a program that reads lines {"messages": […]} and writes lines {"reply": …}.'),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the bot in the report.")] = None,
    conversations: Annotated[int, typer.Option(min=1, help="The number of conversations.")] = 1000,
    triggers: Annotated[str | None, typer.Option(help="The triggers, separated by commas; by default all.")] = None,
    after: Annotated[
        str,
        typer.Option(help="After how many other turns a question is asked again, separated by commas; empty: never."),
    ] = "2,10",
    openings: Annotated[
        str | None, typer.Option(help="A file of openings, or a data repo with the columns of CDConv.")
    ] = None,
    persona: Annotated[
        Path | None,
        typer.Option(help="A JSON file of facts about the bot. The bot gets the facts and is asked about them."),
    ] = None,
    persona_as: Annotated[
        Literal["system", "turns"], typer.Option(help="Tell the facts in a system message, or as the first turns.")
    ] = "system",
    writer: Annotated[
        str | None, typer.Option(help="An endpoint whose model writes what the user says. By default rules write it.")
    ] = None,
    writer_model: Annotated[str, typer.Option(help="The model of --writer.")] = "default",
    writer_key_variable: Annotated[
        str | None, typer.Option(help="The environment variable with the key of --writer.", show_default=KEY)
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="The temperature of the bot.")] = None,
    max_tokens: Annotated[
        int,
        typer.Option(min=1, help="The maximum number of tokens in a reply of the bot. The report counts cut replies."),
    ] = MAX_TOKENS,
    at_once: Annotated[int, typer.Option(min=1, help="The number of conversations at the same time.")] = 4,
    per_minute: Annotated[float | None, typer.Option(min=0.01, help="The maximum number of calls in a minute.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0.01, help="Seconds to wait for a reply; a --chat-model has no limit.")
    ] = 60,
    retries: Annotated[int, typer.Option(min=0, help="How often a failed call is repeated.")] = 5,
    backoff: Annotated[
        float, typer.Option(min=0, help="Seconds before the first repetition. The time doubles with each repetition.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="The random seed for the choice of openings and words.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what a run costs and asks. The bot is not called.")
    ] = False,
    model: ModelOption = SHIPPED,
    revision: RevisionOption = None,
    threshold: ThresholdOption = None,
    prior: PriorOption = None,
    windowing: WindowingOption = None,
    max_turns: MaxTurnsOption = MAX_TURNS,
    backend: BackendOption = "torch",
    device: DeviceOption = None,
    scan: ScanOption = False,
    evaluation: Annotated[
        Path | None,
        typer.Option(
            help="A file of `cdconv evaluate --json`, which says how often the detector is right. By default a "
            "saved result."
        ),
    ] = None,
    fail_above: FailAboveOption = None,
    quiet: QuietOption = False,
) -> None:
    """Talks to a bot, tries to make it contradict itself, judges its replies, and writes a report.

    --out then holds transcript.jsonl (a line for each conversation), data/ (the same as a data repo), report.html,
    report.md, report.json and badge.svg. Every conversation starts with an empty context.

    Exit code: 0 done; 1 a conversation failed, or --fail-above found too many contradictions; 2 the command cannot run.
    """
    from contradiction.probing import plan as planning
    from contradiction.probing.run import Caller, CallLimits

    settings = given_settings(threshold=threshold, prior=prior, windowing=windowing, max_turns=max_turns)
    after_turns = _turns(after)
    persona_facts = planning.read_persona(persona, as_turns=persona_as == "turns") if persona else None
    all_triggers = planning.all_triggers(after_turns, persona_facts is not None)
    chosen = [part.strip() for part in triggers.split(",") if part.strip()] if triggers else all_triggers
    opening_texts = planning.read_openings(openings)
    probes = planning.plan(opening_texts, chosen, conversations, seed=seed, persona=persona_facts)
    if not quiet or dry_run:
        say(_cost(planning.estimate(probes), at_once, per_minute))
    if dry_run:
        for trigger in chosen:
            probe = next((probe for probe in probes if probe.trigger == trigger), None)
            if probe:
                typer.echo(f"{trigger}: {probe.u1} → {probe.u2 or '(from the reply)'}")
        return
    model = existing_model(model, revision)
    limits = CallLimits(at_once, per_minute, retries, backoff)
    options = {"temperature": temperature, "max_tokens": max_tokens}
    kinds = {"endpoint": endpoint, "chat_model": chat_model, "function": function, "command": command}
    chosen_bot = {kind: value for kind, value in kinds.items() if value}
    if len(chosen_bot) != 1:
        raise InputError("name one bot: --endpoint, --chat-model, --function or --command")
    if endpoint:
        chosen_bot["endpoint_model"] = endpoint_model
    if endpoint and writer and endpoint.rstrip("/") != writer.rstrip("/"):
        _check_keys(key_variable, writer_key_variable)
    request = {
        **chosen_bot, **options, "name": name,
        # With a digest, because a file of openings may change.
        "openings": openings and f"{openings}@{sha256(json.dumps(opening_texts).encode()).hexdigest()[:12]}",
        "persona": persona_facts and list(persona_facts.facts), "persona_as": persona_as, "triggers": chosen,
        "conversations": conversations, "seed": seed, "writer": writer, "writer_model": writer and writer_model,
    }  # fmt: skip
    from contradiction.detector import ContradictionDetector
    from contradiction.io.files import locked
    from contradiction.probing import verdicts
    from contradiction.probing.bots import EndpointBot

    with ExitStack() as stack:
        stack.enter_context(locked(out))
        # A wrong option is found before the detector is loaded. A chat model takes longer to load than the detector.
        load_bot = partial(_bot, chosen_bot, key_variable=key_variable, timeout=timeout, **options)
        bot = None if chat_model else load_bot()
        if bot:
            stack.callback(bot.close)
            bot.check()  # else each conversation would try again for minutes
        # Before the bot is called, so that a mistake here costs no conversation.
        detector = ContradictionDetector.from_pretrained(model, device=device, backend=backend, **settings)
        detector.check_judges_replies()
        accuracy = verdicts.accuracy_record(verdicts.find_accuracy(detector, evaluation, on_note=say))
        if bot is None:
            bot = load_bot()
            stack.callback(bot.close)
        endpoint_writer = None
        if writer:
            writer_bot = EndpointBot(writer, writer_model, key_variable=writer_key_variable, timeout=timeout)
            stack.callback(writer_bot.close)
            endpoint_writer = Caller(writer_bot, limits)
        outcome = _converse(
            probes, bot, out, request=request, name=name or next(iter(chosen_bot.values())), seed=seed, limits=limits,
            writer=endpoint_writer, quiet=quiet,
        )  # fmt: skip
        _judge(out, detector, accuracy, scan=scan, quiet=quiet)
        report = _write_report([out], out, quiet=quiet)
    if outcome.failed:
        say(f"{len(outcome.failed):,} conversations failed → {out / 'failed.jsonl'}; the same command tries them again")
    if _is_above(report, fail_above) or outcome.failed:
        raise typer.Exit(1)


@app.command("report")
def report_probe(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs; or a data repo that `cdconv data build` wrote, for the paper's Table 2."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write the report to.")],
    labels: Annotated[
        Path | None,
        typer.Option(
            help='Labels by people on a random sample of each bot\'s conversations: {"id": …, "label": …, "bot": …}.'
        ),
    ] = None,
    fail_above: FailAboveOption = None,
    quiet: QuietOption = False,
) -> None:
    """Shows bots side by side, and compares each with the first one on the probes that both runs have.

    Exit code: 0 done; 1 --fail-above found too many contradictions; 2 the command cannot run.
    """
    report = _write_report(runs, out, labels=labels, quiet=quiet)
    if _is_above(report, fail_above):
        raise typer.Exit(1)


def _turns(after: str) -> list[int]:
    try:
        turns = [int(part) for part in after.split(",") if part.strip()]
    except ValueError:
        turns = [0]
    if any(not 1 <= number <= 100 for number in turns):
        raise InputError(f"--after {after!r}; it must be numbers of turns from 1 to 100, like 2,10")
    return turns


def _cost(estimate: "Estimate", at_once: int, per_minute: float | None) -> str:
    seconds = estimate.seconds(PER_CALL, at_once, per_minute)
    expected = f"{seconds / 60:,.0f} min" if seconds >= 120 else f"{seconds:,.0f} s"
    return (
        f"{estimate.conversations:,} conversations, {estimate.calls:,} calls, about {estimate.tokens_in:,} tokens in "
        f"and {estimate.tokens_out:,} out; {expected} if a call takes {PER_CALL:g} s"
    )


def _check_keys(bot: str | None, writer: str | None) -> None:
    """Raises InputError if two endpoints would get one key, and not both options name its variable."""
    if (bot or KEY) == (writer or KEY) and None in (bot, writer) and os.environ.get(KEY):
        raise InputError(
            f"--endpoint and --writer are two addresses, and both would get the key in {KEY}; name the variable of "
            "each with --key-variable and --writer-key-variable"
        )


def _bot(chosen_bot: dict[str, str], *, key_variable: str | None, timeout: float, **options: Any) -> "Bot":
    from contradiction.probing import bots

    if "endpoint" in chosen_bot:
        return bots.EndpointBot(
            chosen_bot["endpoint"], chosen_bot["endpoint_model"], key_variable=key_variable, timeout=timeout, **options
        )
    if "chat_model" in chosen_bot:
        return bots.TransformersBot(
            chosen_bot["chat_model"], max_new_tokens=options["max_tokens"], temperature=options["temperature"]
        )
    if "function" in chosen_bot:
        return bots.FunctionBot(chosen_bot["function"], timeout=timeout)
    return bots.CommandBot(chosen_bot["command"], timeout=timeout)


def _converse(probes: Any, bot: "Bot", out: Path, *, quiet: bool, **options: Any) -> "Outcome":
    from contradiction.probing.run import run

    begun = printed = time.monotonic()
    with progress("conversations") as bar:
        task = bar.add_task("", total=len(probes), visible=not quiet)

        def on_done(outcome: "Outcome") -> None:
            nonlocal printed
            finished, now = outcome.done + len(outcome.failed), time.monotonic()
            bar.update(task, completed=finished)
            if bar.disable and not quiet and now - printed > SECONDS_BETWEEN_LINES:
                printed = now
                rate = (finished - outcome.earlier) / (now - begun)
                left = (len(probes) - finished) / rate / 60
                say(f"{finished:,} of {len(probes):,} conversations, {rate:.1f} a second, {left:.0f} min left")

        outcome = run(
            probes, bot, out, on_done=on_done, on_failure=lambda probe, why: say(f"{probe}: {why}"), **options
        )
    if not quiet:
        new, seconds = outcome.done - outcome.earlier, time.monotonic() - begun
        say(f"{outcome.done:,} conversations in the transcript, {new:,} of them now, in {seconds:.0f} s")
    return outcome


def _judge(
    out: Path, detector: "ContradictionDetector", accuracy: dict[str, Any] | None, *, scan: bool, quiet: bool
) -> None:
    from contradiction.io.files import RECORD, read_json, write_json
    from contradiction.io.hub import model_name
    from contradiction.io.lines import write_lines
    from contradiction.probing import verdicts
    from contradiction.probing.run import TRANSCRIPT, read_transcript

    rows, begun = read_transcript(out / TRANSCRIPT), time.monotonic()
    with counting("verdicts", len(rows), shown=not quiet) as bar:
        judged = verdicts.judge(rows, detector, scan=scan, on_done=bar.advance)
    seconds = time.monotonic() - begun
    name = model_name(detector.name)
    record = read_json(out / RECORD)
    # Without a detector in its record a run counts as not judged. So a run that is killed here has no verdicts of one
    # detector under the name of another.
    write_json(out / RECORD, {key: value for key, value in record.items() if key != "detector"})
    write_lines(out / TRANSCRIPT, judged)
    if judged:
        verdicts.write_data(out / verdicts.DATA, judged, detector.task, name)
    write_json(out / RECORD, record | {"detector": name, "detector_seconds": round(seconds, 2), "accuracy": accuracy})
    if not quiet:
        say(f"{len(judged):,} conversations judged in {seconds:.0f} s")


def _write_report(runs: list[Path], out: Path, *, labels: Path | None = None, quiet: bool) -> dict[str, Any]:
    from contradiction.probing import pages, report

    sources = [source for run in runs for source in report.read(run)]
    built = report.build(report.with_labels(sources, labels) if labels else sources)
    pages.write(built, out)
    if not quiet:
        show(*pages.tables(built)[:1])
        for line in (*pages.headlines(built), *pages.warnings(built)):
            say(line)
        say(f"→ {out / 'report.html'}")
    return built


def _is_above(report: dict[str, Any], rate: float | None) -> bool:
    from contradiction.probing import pages
    from contradiction.probing.shares import ANY

    if rate is None:
        return False
    shares = [bot["all"][ANY] for bot in report["bots"] if bot["all"]]
    if not shares:
        say("no reply could be judged; --fail-above needs the share of contradictions")
        return True
    # If the share is not known, its upper bound counts.
    above = [value for value in shares if (value["high"] if value["estimate"] is None else value["estimate"]) > rate]
    for value in above:
        share = pages.cell(value, " %")
        say(f"{share} of the conversations end in a contradiction; --fail-above allows {100 * rate:g} %")
    return bool(above)
