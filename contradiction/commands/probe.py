"""The commands ``cdconv probe ...``: makes a live bot contradict itself, and reports how often it did."""

import json
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contradiction.commands.common import (
    SHIPPED,
    ModelOption,
    ThresholdOption,
    counting,
    given_settings,
    say,
    show,
)
from contradiction.errors import InputError
from contradiction.io.endpoint import KEY, MAX_TOKENS, URL, Endpoint

if TYPE_CHECKING:
    from contradiction.probing.bots import Bot
    from contradiction.probing.plan import Probe

app = typer.Typer(help="Talks to a live bot and reports how often it contradicts itself.", no_args_is_help=True)
PER_CALL = 1.0  # seconds, for the estimate

FailAboveOption = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Exit with code 1 if a larger share was called a contradiction, for instance 0.1."),
]


@app.command("run")
def run_probe(
    out: Annotated[Path, typer.Option(help="The folder to write. The same command continues a killed run.")],
    endpoint: Annotated[
        str | None, typer.Option(help="Probe an OpenAI-compatible endpoint: its address including /v1.")
    ] = None,
    endpoint_model: Annotated[str, typer.Option(help="The model that the endpoint serves.")] = "default",
    key_variable: Annotated[
        str | None,
        typer.Option(
            help="The environment variable with the key of --endpoint.", show_default=f"{KEY}, if there is no --writer"
        ),
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
    triggers: Annotated[str | None, typer.Option(help="Triggers separated by commas; by default all that fit.")] = None,
    openings: Annotated[
        str | None, typer.Option(help="A file with one opening per line, or a data repo with the columns of CDConv.")
    ] = None,
    persona: Annotated[
        Path | None,
        typer.Option(help="A JSON file of facts about the bot. The bot gets the facts and is asked about them."),
    ] = None,
    writer: Annotated[
        str | None,
        typer.Option(help=f"A model at ${URL} that writes what the user says. By default rules write it."),
    ] = None,
    max_tokens: Annotated[
        int,
        typer.Option(min=1, help="The maximum number of tokens in a reply of the bot. The report counts cut replies."),
    ] = MAX_TOKENS,
    at_once: Annotated[int, typer.Option(min=1, help="The number of conversations at the same time.")] = 4,
    per_minute: Annotated[float | None, typer.Option(min=0.01, help="The maximum number of calls in a minute.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0.01, max=1e6, help="The seconds to wait for a reply. A --chat-model has no limit.")
    ] = 60,
    seed: Annotated[int, typer.Option(help="The random seed for the choice of openings and words.")] = 0,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the cost and an example of each trigger. The bot is not called."),
    ] = False,
    model: ModelOption = SHIPPED,
    threshold: ThresholdOption = None,
    evaluation: Annotated[
        Path | None,
        typer.Option(
            help="A file of `cdconv evaluate --json`, which gives the error rates of the detector. By default the "
            "saved result."
        ),
    ] = None,
    fail_above: FailAboveOption = None,
) -> None:
    """Talks to a bot, tries to make it contradict itself, judges its replies, and writes a report.

    --out then holds transcript.jsonl (a line for each conversation), report.html, report.md, report.json and badge.svg.
    Every conversation starts with an empty context.

    Exit code: 0 done; 1 a conversation failed, or --fail-above found too many contradictions; 2 the command cannot run.
    """
    from contradiction.probing import plan as planning
    from contradiction.probing.run import Caller, find_accuracy, judge, run

    settings = given_settings(threshold=threshold)
    facts = planning.read_persona(persona) if persona else ()
    opening_texts = planning.read_openings(openings)
    chosen = [part.strip() for part in (triggers or "").split(",") if part.strip()]
    if not triggers:
        chosen = [name for name in planning.ALL_TRIGGERS if planning.fits(name, opening_texts, seed)]
        if not chosen:
            raise InputError(f"{openings}: the file has no question and no known kind of fact, so no trigger fits")
        if left_out := [name for name in planning.ALL_TRIGGERS if name not in chosen]:
            say(f"{openings}: no opening fits {', '.join(left_out)}; left out")
        if facts and planning.fits(planning.PERSONA, (), seed, facts):
            chosen.append(planning.PERSONA)
        elif facts:
            say(f"{persona}: no fact can be asked about, so {planning.PERSONA} is left out")
    probes = planning.plan(opening_texts, chosen, conversations, seed=seed, facts=facts)
    kinds = {"endpoint": endpoint, "chat_model": chat_model, "function": function, "command": command}
    bot_kind = {kind: value for kind, value in kinds.items() if value}
    if len(bot_kind) != 1 and not dry_run:
        raise InputError("name one bot: --endpoint, --chat-model, --function or --command")
    say(_cost(probes, at_once, per_minute))
    if dry_run:
        for trigger, probe in {probe.trigger: probe for probe in probes}.items():
            typer.echo(f"{trigger}: {probe.u1} → {probe.u2 or '(from the reply)'}")
        return
    request = {
        **bot_kind, **({"endpoint_model": endpoint_model} if endpoint else {}), "max_tokens": max_tokens, "name": name,
        # With a digest, because a file of openings may change.
        "openings": openings and f"{openings}@{sha256(json.dumps(opening_texts).encode()).hexdigest()[:12]}",
        "persona": list(facts), "triggers": chosen, "conversations": conversations, "seed": seed, "writer": writer,
    }  # fmt: skip
    from contradiction.detector import ContradictionDetector
    from contradiction.io.files import locked
    from contradiction.probing import bots

    with ExitStack() as stack:
        stack.enter_context(locked(out))

        def started(bot: "Bot") -> "Bot":
            stack.callback(bot.close)
            bot.check()  # else each conversation would try again for minutes
            return bot

        # A wrong option is found before the detector is loaded, and a wrong detector before a chat model is loaded.
        writing = started(Endpoint(writer, timeout=timeout)) if writer else None
        bot: Bot | None = None
        if endpoint:
            # With a writer the usual variable holds the writer's key, which is not sent to another address.
            key = "" if writer and not key_variable else None
            options = {"max_tokens": max_tokens}
            bot = Endpoint(
                endpoint_model, url=endpoint, key=key, key_variable=key_variable, timeout=timeout, options=options
            )
        elif function:
            bot = bots.FunctionBot(function, timeout=timeout)
        elif command:
            bot = bots.CommandBot(command, timeout=timeout)
        if bot:
            started(bot)
        detector = ContradictionDetector.from_pretrained(model, **settings)
        detector.check_judges_replies()
        accuracy = find_accuracy(detector, evaluation, on_note=say)
        bot = bot or started(bots.TransformersBot(chat_model or "", max_new_tokens=max_tokens))
        tried = 0
        with counting("conversations", len(probes)) as bar:

            def on_done(done: int, problem: str | None) -> None:
                nonlocal tried
                tried += 1
                bar.move(done)
                if problem:
                    say(problem)

            failed = run(
                probes, Caller(bot, per_minute), out, request=request, name=name or next(iter(bot_kind.values())),
                at_once=at_once, writer=Caller(writing, per_minute) if writing else None, on_done=on_done,
            )  # fmt: skip
        earlier = f", {len(probes) - tried:,} of them from an earlier run" if tried < len(probes) else ""
        again = "" if tried else "; the bot was not asked; another --out asks it again"
        say(f"{len(probes) - len(failed):,} conversations in the transcript{earlier}{again}")
        with counting("verdicts", len(probes) - len(failed)) as bar:
            judge(out, detector, accuracy, on_done=bar.advance)
        is_above = _write_report([out], out, fail_above)
    if failed:
        say(f"{len(failed):,} conversations failed; the same command tries them again")
    if is_above or failed:
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
            help="Labels by people of a random sample of each bot's conversations, as JSON lines: "
            '{"id": …, "label": …, "bot": …}. They replace the verdicts.'
        ),
    ] = None,
    fail_above: FailAboveOption = None,
) -> None:
    """Shows bots side by side, and compares each with the first one on the probes of both runs.

    Exit code: 0 done; 1 --fail-above found too many contradictions; 2 the command cannot run.
    """
    if _write_report(runs, out, fail_above, labels):
        raise typer.Exit(1)


def _cost(probes: list["Probe"], at_once: int, per_minute: float | None) -> str:
    from contradiction.probing.plan import cost

    calls, tokens_in, tokens_out = cost(probes)
    seconds = max(calls * PER_CALL / at_once, 60 * calls / per_minute if per_minute else 0.0)
    duration = f"{seconds / 60:,.0f} min" if seconds >= 120 else f"{seconds:,.0f} s"
    return (
        f"{len(probes):,} conversations, {calls:,} calls, about {tokens_in:,} tokens in and {tokens_out:,} out; "
        f"{duration} if a call takes {PER_CALL:g} s"
    )


def _write_report(runs: list[Path], out: Path, fail_above: float | None, labels: Path | None = None) -> bool:
    """Writes the report and shows its figures; returns whether a bot was called more often than is allowed."""
    from contradiction.probing import pages, report

    built = report.build([source for run in runs for source in report.read(run)], labels)
    pages.write(built, out)
    show(pages.tables(built)[0], *(pages.differences(each | {"by_trigger": {}}) for each in built["comparisons"]))
    for line in [*pages.headlines(built), *([pages.LABEL_SOME] if pages.needs_labels(built) else [])]:
        say(line)
    say(f"→ {out / 'report.html'}")
    if fail_above is None:
        return False
    above = [bot for bot in built["bots"] if report.is_above(bot, fail_above)]
    for bot in above:
        value = pages.found(bot, "all")
        share = pages.rate(value) if value else "an unknown share"
        say(f"{bot['bot']}: {share} called a contradiction; --fail-above allows {100 * fail_above:g} %")
    return bool(above)
