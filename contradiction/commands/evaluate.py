"""The commands that measure detectors and baselines: evaluate, contrast and baselines."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contradiction.commands.common import (
    DATA,
    SHOWN_RESULTS,
    BackendOption,
    ConfigOption,
    DataOption,
    DataOrLabelsOption,
    DeviceOption,
    RevisionOption,
    counting,
    say,
    show,
)
from contradiction.errors import InputError
from contradiction.io.files import check_file, write_json
from contradiction.io.tables import with_interval
from contradiction.labels import CROSSED_CONFIGS
from contradiction.paths import RESULTS

if TYPE_CHECKING:
    from contradiction.detector import ContradictionDetector

ALL = "all"
ModelArgument = Annotated[str, typer.Argument(help="A model folder or Hub id.")]
ViewOption = Annotated[
    str | None, typer.Option(help="The utterances to read (the view), if the model does not name them.")
]


def evaluate(
    model: ModelArgument,
    data: DataOrLabelsOption = DATA,
    config: ConfigOption = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="<train|validation|test>", help="The split.", show_default="test; all chats of a file"),
    ] = None,
    revision: RevisionOption = None,
    view: ViewOption = None,
    backend: BackendOption = "torch",
    device: DeviceOption = None,
    json: Annotated[Path | None, typer.Option(help="Also write metrics and predictions to this file.")] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Also show the test scores of thresholds chosen on validation.")
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="With --settings: the folder of saved results.", show_default=SHOWN_RESULTS)
    ] = None,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence", help="Evaluate the evidence instead, on the checklists of `cdconv data build --checklists`."
        ),
    ] = False,
    windowing: Annotated[str, typer.Option(help="With --evidence: windowed, structured, unstructured, or all.")] = ALL,
    limit: Annotated[int | None, typer.Option(min=1, help="With --evidence: the maximum number of rows.")] = None,
) -> None:
    """Evaluates a detector, with 95 % bootstrap intervals, and shows the baselines that are saved for the same rows.

    For rows of your own, `cdconv baselines` scores the baselines. Each chat of a file of labelled chats is judged as a
    whole, and the verdicts are scored.
    """
    from contradiction.data import labelled
    from contradiction.detector import ContradictionDetector

    if json:
        check_file(json)
    if config in CROSSED_CONFIGS:
        options = {
            "--data": data != DATA, "--settings": settings, "--results": results is not None, "--evidence": evidence,
            "--windowing": windowing != ALL, "--limit": limit is not None,
        }  # fmt: skip
        if given := [name for name, is_given in options.items() if is_given]:
            raise InputError(f"--config {config} reads the corpus of the package alone; leave {', '.join(given)} out")
    if evidence and settings:
        raise InputError("--evidence and --settings cannot be used together")
    if evidence and split not in (None, "test"):
        raise InputError(f"split {split!r}: the checklists have only a test split; leave --split out")
    if not evidence and (windowing != ALL or limit is not None):
        raise InputError("--windowing and --limit need --evidence")
    if results and not settings:
        raise InputError("--results needs --settings")
    of_file = Path(data).is_file()
    if of_file:
        options = {"--config": config is not None, "--evidence": evidence, "--results": results is not None}
        if given := [name for name, is_given in options.items() if is_given]:
            raise InputError(f"{data}: its chats are judged as verdicts judge them; leave {', '.join(given)} out")
        labelled.of_split(labelled.read(data), data, split or labelled.WHOLE)  # before a large model is loaded
    detector = ContradictionDetector.from_pretrained(
        model, view=view, device=device, revision=revision, backend=backend
    )
    if of_file:
        _chats(detector, Path(data), split, json, settings)
    elif config in CROSSED_CONFIGS:
        _crossed(detector, config, split or "test", json)
    elif evidence:
        _evidence(detector, data, config, windowing, limit, json)
    else:
        _labels(detector, data, config, split or "test", json, (results or RESULTS) if settings else None)


def _chats(detector: "ContradictionDetector", file: Path, split: str | None, json: Path | None, settings: bool) -> None:
    from contradiction.data.labelled import WHOLE
    from contradiction.evaluation import chat_evaluation, thresholds
    from contradiction.reports.tables import class_table, usage_table

    split, rule = split or WHOLE, detector.classifier.rule
    if settings and (reason := thresholds.unsupported_reason(detector.name, "2-class", split, rule)):
        raise InputError(reason)
    with counting(f"judging chats with {Path(detector.name).resolve().name}") as bar:
        result = chat_evaluation.evaluate(detector, file, split=split, on_batch=bar.advance)
    if settings and (reason := thresholds.missing_reason(result, rule)):
        raise InputError(reason)
    _save(result, json)
    show(*chat_evaluation.tables(result, file))
    if result["config"] == "4-class":
        figures = result["metrics"]
        macro_f1 = with_interval(figures["macro_f1"], figures["interval"]["macro_f1"])
        show(replace(class_table(result), title=f"By kind: macro-F1 {macro_f1}"))
    if "usage" in result:
        show(usage_table(result["usage"], len(result["references"])))
    if settings:
        show(thresholds.table(result, rule))


def _crossed(detector: "ContradictionDetector", config: str, split: str, json: Path | None) -> None:
    from contradiction.data.corpora import crossed
    from contradiction.evaluation.crossed import false_alarms, judge_items, summary, table, table_by
    from contradiction.io.hub import model_name
    from contradiction.training import leakage, record

    folder = crossed.FOLDERS[config]
    items, batches = crossed.read(split, folder), crossed.batches(folder)
    with counting(f"judging crossed chats with {Path(detector.name).resolve().name}") as bar:
        answers = judge_items(detector, items, on_batch=bar.advance)
        alarms = false_alarms(detector, items, on_batch=bar.advance)
    styles = summary(answers, lambda item: batches[item.batch].style)
    phenomena = summary(answers)
    name = model_name(detector.name)
    result = {
        "name": name, "config": config, "split": split,
        "leakage": leakage.describe_crossed(record.of_model(detector.name), split),
        "styles": styles, "phenomena": phenomena, "false_alarms": alarms,
    }  # fmt: skip
    _save(result, json)
    show(table(f"{name}: {config}", styles, alarms), table_by("style", styles), table_by("phenomenon", phenomena))


def _labels(
    detector: "ContradictionDetector", data: str, config: str | None, split: str, json: Path | None, saved: Path | None
) -> None:
    from contradiction.data.splits import load_split
    from contradiction.evaluation import contrast, results, thresholds
    from contradiction.evaluation.evaluate import evaluate as run
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.labels import CONTRADICTIONS, task_of
    from contradiction.reports.tables import class_table, score_table, usage_table

    config = config or trained_config(detector.name) or detector.task
    if saved and (reason := thresholds.unsupported_reason(detector.name, config, split, detector.classifier.rule)):
        raise InputError(reason)
    result = _saved(detector, data, config, split, saved) if saved else None
    if result:
        say(f"{saved} contains this evaluation, so the detector is not run again")
    else:
        with counting(f"evaluating {Path(detector.name).resolve().name}") as bar:
            result = run(detector, data=data, config=config, split=split, on_start=bar.start, on_batch=bar.advance)
    _save(result, json)
    rows = [result, *results.baselines(config, split, data=result["data"])]
    show(class_table(result), score_table(rows, "With 95 % bootstrap intervals"))
    if task_of(config) in CONTRADICTIONS and "b2" in detector.columns:
        if ranking := contrast.table(rows, load_split(data, config, split)):
            show(ranking)
    if "usage" in result:
        show(usage_table(result["usage"], len(result["references"])))
    if saved:
        show(thresholds.table(result, detector.classifier.rule))


def _saved(
    detector: "ContradictionDetector", data: str, config: str, split: str, folder: Path
) -> dict[str, Any] | None:
    """The saved evaluation of this detector with its current rule on the same rows; None without one."""
    from contradiction.data.splits import fingerprint, load_split
    from contradiction.evaluation.results import evaluations_of

    expected = {
        "config": config,
        "split": split,
        "columns": list(detector.columns),
        "rule": detector.classifier.rule.without_curve(),
        "data": fingerprint(load_split(data, config, split)),
    }
    saved = evaluations_of(detector.name, folder)
    return next((result for result in saved if expected.items() <= result.items()), None)


def _evidence(
    detector: "ContradictionDetector",
    data: str,
    config: str | None,
    windowing: str,
    limit: int | None,
    json: Path | None,
) -> None:
    from contradiction.evaluation import checklists
    from contradiction.evaluation.evaluate import trained_config
    from contradiction.inputs.windows import WINDOWINGS, check_windowing
    from contradiction.labels import GROUPED

    windowings = WINDOWINGS if windowing == ALL else (check_windowing(windowing),)
    # The checklists of the model's own split: those of the other split contain training rows.
    grouped = (trained_config(detector.name) or "").endswith(GROUPED)
    default = next(name for name in checklists.CONFIGS if name.endswith(GROUPED) == grouped)
    with counting(f"judging chats with {Path(detector.name).resolve().name}") as bar:
        result = checklists.evaluate(
            detector, data=data, config=config or default, windowings=windowings, limit=limit,
            on_start=bar.start, on_batch=bar.advance,
        )  # fmt: skip
    _save(result, json)
    show(*checklists.tables(result))
    for note in checklists.notes(result):
        typer.echo(note)


def _save(result: Mapping[str, Any], json: Path | None) -> None:
    """Warns of leakage, and writes a result to the file of ``--json``."""
    _warn_of_leakage(result)
    if json:
        write_json(json, result)


def _warn_of_leakage(result: Mapping[str, Any]) -> None:
    """Writes one line to stderr if the detector was trained on the evaluated rows."""
    from contradiction.training import leakage

    if why := leakage.of_evaluation(result):
        say(
            f"{result['name']} {why}: its scores are too high; they are saved with this note, and model cards and "
            "tables leave them out"
        )


def contrast(
    model: ModelArgument,
    wrong: Annotated[bool, typer.Option("--wrong", help="Also print each wrong verdict.")] = False,
    json: Annotated[Path | None, typer.Option(help="Also write the counts to this file.")] = None,
    device: DeviceOption = None,
) -> None:
    """Evaluates a detector on contrast pairs: two replies to one chat, of which one is a contradiction.

    The pairs were written for this project and are not from CDConv. "Both right": the detector calls only the
    contradicting reply a contradiction. "In order": that reply has the higher probability.
    """
    from contradiction.detector import ContradictionDetector
    from contradiction.evaluation.contrast import count, fingerprint, judge_pairs, read_pairs
    from contradiction.io.hub import model_name
    from contradiction.reports.tables import contrast_table

    if json:
        check_file(json)
    detector, pairs = ContradictionDetector.from_pretrained(model, device=device), read_pairs()
    with counting(f"judging with {detector.name}", 2 * len(pairs)) as bar:
        answers = judge_pairs(detector, pairs, on_batch=bar.advance)
    counts = count(answers)
    if json:
        write_json(json, {"name": model_name(detector.name), "pairs": fingerprint(), "contrast": counts})
    if wrong:
        for answer in answers:
            for reply, verdict, meant in answer.replies():
                if verdict.contradiction != meant:
                    chat = " / ".join((*answer.pair.turns, reply))
                    typer.echo(f"{answer.pair.phenomenon}: {chat} -> {verdict.label}")
    show(contrast_table(detector.name, counts))


def baselines(
    data: DataOption = DATA,
    config: Annotated[
        list[str] | None,
        typer.Option(help="Configs to run. By default 2-class and 4-class, of the official and the grouped split."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to score.")] = "test",
    embedder: Annotated[
        str | None, typer.Option(help="Folder or Hub id of an encoder; adds kernel ridge regression on its embeddings.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also add the scores to the saved results in this folder.")] = None,
) -> None:
    """Runs the baselines: TF-IDF of the reply, of the context, and of both; and kernel ridge regression.

    Kernel ridge regression is fitted to n-grams and, with --embedder, also to embeddings by an encoder that is not
    fine-tuned.
    """
    from contradiction.evaluation import results
    from contradiction.evaluation.baselines import kernel_ridge, tfidf
    from contradiction.inference.embedding import Embedder
    from contradiction.reports.tables import score_table

    encoder = Embedder(embedder) if embedder else None
    for name in config or ["2-class", "4-class", "2-class-grouped", "4-class-grouped"]:
        evaluations = [*tfidf(data, name, split), kernel_ridge(data, name, split=split)]
        if encoder:
            evaluations.append(kernel_ridge(data, name, encoder, split))
        if out:
            results.add(evaluations, out)
        show(score_table(evaluations, f"{name}, {split} split, n = {evaluations[0]['metrics']['n']:,}"))
