"""Makes detectors: from a recipe and data, from labelled chats of one's own, or from other detectors.

:func:`train` follows a recipe, :func:`adapt` fits a detector to labelled chats, :func:`ensemble` averages predictions,
and :func:`cascade` asks a judge about replies that a detector finds doubtful.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.base_detector import BaseDetector
from contradiction.chats.names import USUAL, Speakers
from contradiction.data import labelled
from contradiction.data.splits import CHINESE, Data, fingerprint, load_split, of_bot
from contradiction.errors import InputError
from contradiction.evaluation.cascades import Step
from contradiction.evaluation.chat_calibration import Calibrated, fit
from contradiction.evaluation.model_card import model_card, write_cards
from contradiction.inference.base import OnBatch
from contradiction.io.files import RECORD, check_new, new_folder, replace_folder, write_json
from contradiction.labels import CONTRADICTION, NON_CONTRADICTION, STAGES
from contradiction.methods.composite import CascadeClassifier, EnsembleClassifier, HierarchicalClassifier
from contradiction.methods.loading import fetch, find_model, load_classifier, method_of, name_with_digest, save_rule
from contradiction.paths import SHIPPED
from contradiction.training import leakage, record
from contradiction.training.accelerators import (
    accelerator_for,
    check_tracker,
    fast_precision,
    processes,
)
from contradiction.training.decoder_trainer import train_decoder
from contradiction.training.loop import train_checkpoint
from contradiction.training.recipe import Recipe, in_tables, load_recipe, require_folders
from contradiction.training.run import (
    Run,
    Trained,
    claimed,
    explain_write_errors,
    finalize,
    has_progress,
    languages_read,
    open_run,
    provenance,
    run_request,
)
from evaluate_metric.evaluate_metric import RESAMPLES, compare, score

if TYPE_CHECKING:
    from datasets import Dataset


def train(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    data: Data = "cdconv",
    out: str | Path | None = None,
    *,
    resume: bool = False,
    save_steps: int | None = None,
    track: str | None = None,
    deterministic: bool = False,
    **changes: Any,
) -> Path:
    """Trains a detector, and writes it with its card.

    Args:
        recipe: a recipe, or what :func:`contradiction.training.recipe.load_recipe` reads: the name of a recipe, a TOML
            file, or a dictionary of options. The name of a dictionary is by default that of ``out``. A ``Recipe`` is
            trained as it is; for the others, bf16 becomes fp32 on a CPU without instructions for it.
        data: the data repo, a folder or Hub id; a file of labelled chats; or rows in memory by split, such as a
            ``DatasetDict`` with ``train`` and ``validation``. Rows in memory count as Chinese.
        out: the model folder to write, by default ``runs/RECIPE-seedN``.
        resume: continue an unfinished run of the same recipe and data; a finished run stays as it is.
        save_steps: save the training state every so many steps; by default after each epoch, and that of a causal
            detector every 50 steps.
        track: an experiment tracker of accelerate, for instance ``tensorboard``.
        deterministic: see ``contradiction.training.accelerators``.
        changes: other values for options of the recipe, by their bare names, for instance ``backbone`` and ``epochs``;
            None does not change a value.

    Returns:
        ``out``.

    Raises:
        InputError: an option is unknown or has a wrong value, or see :func:`train_run`.
    """
    chosen = _chosen(recipe, out, changes)
    out = Path("runs") / f"{chosen.name}-seed{chosen.seed}" if out is None else Path(out)
    if isinstance(data, str | Path) and Path(data).is_file():
        data = labelled.build(data).folder
    train_run(Run(chosen, data, out, resume, save_steps, track, deterministic))
    if processes().is_main_process:
        write_cards(out)
    return out


def _chosen(
    recipe: str | Path | Mapping[str, Any] | Recipe, out: str | Path | None, changes: Mapping[str, Any]
) -> Recipe:
    if changes.get("backbone"):  # the name of a model of the repository, too
        changes = {**changes, "backbone": str(find_model(changes["backbone"]))}
    if isinstance(recipe, Recipe):
        return recipe.with_changes(**changes)
    if isinstance(recipe, Mapping):
        given = {name: value for name, value in changes.items() if value is not None}
        chosen = load_recipe(in_tables({"name": Path(out).name} if out else {}, recipe, given))
    else:
        chosen = load_recipe(recipe).with_changes(**changes)
    require_folders(chosen, chosen.name if isinstance(recipe, Mapping) else str(recipe))
    if changes.get("precision") is not None or (fast := fast_precision(chosen)) == chosen:
        return chosen
    if processes().is_main_process:
        logging.getLogger(__name__).warning(
            "this CPU has no instructions for bf16, so this run uses fp32; with the option precision it keeps bf16"
        )
    return fast


def train_run(run: Run) -> Path:
    """Trains a run, and writes the model folder with its decision rule, its record and its manifest.

    While the run goes on, everything lies in ``<out>.partial``. Only a finished run is renamed to ``out``, so a folder
    of that name is always a whole model. The test split is not read.

    Raises:
        InputError: ``out`` exists or has no name, another process trains there, the unfinished run has another recipe,
            the backbone or a teacher was trained on test rows, the tracker or the precision is not available, or the
            trainer of the method raises it.
    """
    recipe, out, work = run.recipe, run.out, run.work
    if run.track:
        check_tracker(run.track)
    accelerator_for(recipe)  # checks the precision before anything is written
    state = processes()  # only the main process writes
    request = run_request(recipe, run.data, run.splits)
    conditions = provenance(recipe, run.deterministic)
    with claimed(run, request, state) as finished:
        if finished:
            return out
        if state.is_main_process:
            open_run(work, request, run.resume, conditions)
        state.wait_for_everyone()
        try:
            trained = TRAINERS[recipe.model.method](run)
        except BaseException:
            if state.is_main_process and not has_progress(work):
                shutil.rmtree(work, ignore_errors=True)
            raise
        if state.is_main_process:
            begun = record.read(work)  # since then, a Hub repo may have changed
            result = {key: begun.get(key) or value for key, value in conditions.items()}
            languages = languages_read(recipe, run.data)
            result |= {} if languages == [CHINESE] else {"languages": languages}
            result |= {
                "processes": state.num_processes,
                "base_model": record.base_model_of_recipe(recipe),
                **record.corpora_of_recipe(recipe),
                "ancestors": leakage.ancestors(leakage.sources(recipe)),
                **trained.result,
            }
            with explain_write_errors(work):
                # A language model may be too large for fp32.
                precision = fast_precision(recipe).precision if recipe.model.method == "decoder" else "fp32"
                if reason := finalize(run.model, run.validation, recipe.model.backbone, precision):
                    logging.getLogger(__name__).warning("%s %s", out, reason)
                    result[record.RULE_KEPT] = reason
                record.write(
                    run.model, request=request, result=result, minutes=trained.minutes,
                    parameters=trained.parameters, hardware=record.hardware(trained.device),
                )  # fmt: skip
                replace_folder(run.model, out)
            shutil.rmtree(work)
    return out


def _train_stages(run: Run) -> Trained:
    """Trains the stages of the hierarchical method, one after the other.

    The folder holds a checkpoint for each stage, ``stages.json`` with their order, and ``run.json`` with their records.
    """
    for stage in run.recipe.stages():
        view = stage.data.view
        logs = run.tracked / f"{run.out.name}-{view}"
        train_run(replace(run, recipe=stage, out=run.model / view, resume=True, logs=logs))
    runs = {stage: record.read(run.model / stage) for stage in STAGES}
    if processes().is_main_process:
        write_json(run.model / HierarchicalClassifier.MARKER, {"stages": list(STAGES)})
    return Trained(**record.sums(runs.values()), device=str(processes().device), result={"stages": runs})


TRAINERS: dict[str, Callable[[Run], Trained]] = {
    "checkpoint": train_checkpoint,
    "hierarchical": _train_stages,
    "decoder": train_decoder,
}


@dataclass(frozen=True)
class Adapted:
    """A detector that was adapted to labelled chats, or the reason why the old one stays.

    Attributes:
        folder: the new model folder; None where the old detector is not worse.
        calibration: the fitted rule, and the decisions on each chat before and after.
        before: the scores of the old detector on the chats, as the metric gives them for two classes.
        after: those of rules that were each fitted to four fifths of the chats, on the other fifth.
        difference: after minus before, as the metric compares two detectors.
    """

    folder: Path | None
    calibration: Calibrated
    before: dict[str, Any]
    after: dict[str, Any]
    difference: dict[str, Any]


def adapt(
    labels: str | Path,
    out: str | Path | None = None,
    *,
    model: str | Path = SHIPPED,
    speakers: Speakers = USUAL,
    on_batch: OnBatch | None = None,
) -> Adapted:
    """Adapts a detector to chats that its owner has labelled; there is nothing to choose.

    Probabilities and threshold are fitted to the chats, and the weights stay: with 100, 300 and 1,000 labels from
    CDConv, further training did not order the held-out replies better (``docs/training.md`` has the figures). The new
    rule is measured by cross-validation. Chats that begin alike are held out together. It is kept if its macro-F1 is
    higher than that of the old one.

    Args:
        labels: a file of labelled chats, see :mod:`contradiction.data.labelled`.
        out: the folder to write, by default ``runs/LABELS``.
        model: the folder or Hub id of the detector to start from.
        speakers: the names of speakers in the file.
        on_batch: called with the number of rows done, after each forward pass.

    Raises:
        InputError: the file is not valid, it has too few contradictions or other chats, the detector was trained on it
            or fitted to it, or ``out`` exists.
    """
    labels, model = Path(labels), fetch(find_model(model))
    out = Path("runs") / labels.name.partition(".")[0] if out is None else Path(out)
    check_new(out, [model])
    chats, name = labelled.read(labels, speakers), labelled.name_of_file(labels)
    if known := leakage.describe_chats(record.read(model), name, labelled.WHOLE):
        raise InputError(f"{model} {known}; start from a detector that does not know these chats")
    calibration = fit(BaseDetector(load_classifier(model)), chats, on_batch)
    truth, old, new = (
        [CONTRADICTION if called else NON_CONTRADICTION for called in decisions]
        for decisions in (calibration.truth, calibration.called_before, calibration.called_held_out)
    )
    before, after = (score(truth, decided, "2-class", bootstrap=RESAMPLES) for decided in (old, new))
    difference = compare(truth, new, old, "2-class")
    if difference["macro_f1_difference"] <= 0:
        return Adapted(None, calibration, before, after, difference)
    with new_folder(out) as folder:
        shutil.copytree(model, folder, dirs_exist_ok=True)
        save_rule(folder, calibration.rule)
        record.write_calibrated_on(folder, name)
        if {"request", record.CASCADE} & record.read(folder).keys():  # a checkpoint of another tool keeps its card
            model_card(folder, name=out.resolve().name).save(folder / "README.md")
    return Adapted(out, calibration, before, after, difference)


def ensemble(models: Sequence[str | Path], out: str | Path, *, data: str | Path, calibrate: bool = True) -> Path:
    """Copies detectors into one folder, and chooses the decision rule of their mean prediction on validation.

    Each detector has one encoder: a single run or a soup. Their views may differ. Unless ``calibrate`` is false, the
    rule of each detector calibrates its probabilities before they are averaged.

    Raises:
        InputError: the models do not fit together, they were trained on other data, or ``out`` exists.
    """
    folders, out = [Path(model) for model in models], Path(out)
    names = [model.resolve().name for model in folders]
    if len(set(names)) < max(len(names), 2):
        raise InputError("an ensemble needs at least two model folders with different names")
    for model in folders:
        if method_of(model).PARTS:
            raise InputError(f"{model}: has several checkpoints; an ensemble needs detectors with one checkpoint each")
        if "parameters" not in record.read(model):
            raise InputError(f"{model}: holds no detector that `cdconv train` or `python -m paper.soup` wrote")
    runs = [record.finished(model) for model in folders]
    with merged(folders, runs, data, out) as folder:
        for name, member in zip(names, folders, strict=True):
            shutil.copytree(member, folder / name)
        write_json(folder / EnsembleClassifier.MARKER, {"members": names, "calibrated": calibrate})
        EnsembleClassifier.load(folder)  # raises InputError where labels differ
        # The request of the first member, with the recipes of all members.
        request = {key: value for key, value in runs[0]["request"].items() if key != "soup"}
        request["ensemble"] = [run["request"]["recipe"] for run in runs]
        result = {"ensemble": runs, "ancestors": leakage.ancestors(map(str, folders))}
        record.write(folder, request=request, result=result, hardware=runs[0]["hardware"], **record.sums(runs))
    return out


@contextmanager
def merged(models: Sequence[Path], runs: Sequence[Mapping[str, Any]], data: str | Path, out: Path) -> Iterator[Path]:
    """A new model folder for a combination of detectors; when the block ends, it gets its decision rule.

    Raises:
        InputError: the detectors were trained on different data, on the replies of different bots, or on other data
            than ``data``; or ``out`` exists, or is inside the folder of a detector.
    """
    check_new(out, models)
    rows = runs[0]["request"].get("data")
    recipes = [record.recipe(run["request"]) for run in runs]
    config, bot = recipes[0].data.config, recipes[0].data.bot
    for model, run, recipe in zip(models, runs, recipes, strict=True):
        if (run["request"].get("data"), recipe.data.bot) != (rows, bot):
            raise InputError(f"{model} and {models[0]}: trained on different data")
    train, validation = (load_split(data, config, split) for split in ("train", "validation"))
    if fingerprint(train, validation) != rows:
        raise InputError(f"{data}: not the data that {models[0]} was trained on")
    with new_folder(out) as folder:
        yield folder
        finalize(folder, of_bot(validation, bot))


def cascade(
    detector: str | Path, judge: str | Path, step: Step, out: str | Path, rows: "Dataset", *, curve: Sequence[Step],
    config: str, data_name: str | None = None, precision: str = "fp32",
) -> Path:  # fmt: skip
    """Copies a detector and a judge into one folder, and chooses the decision rule of the cascade on validation.

    Answers that the judge has saved are not requested again.

    Args:
        detector: the folder of the model that judges every reply.
        judge: the folder of the model that is asked about doubtful replies.
        step: the one of ``curve`` whose bounds the cascade gets.
        out: the folder to write.
        rows: the validation split, or a part of it.
        curve: what :func:`contradiction.evaluation.cascades.curve` measured on the rows, for the card.
        config: the config of the rows.
        data_name: the name of their data repo; None if it is not known.
        precision: see :func:`contradiction.methods.loading.load_classifier`.

    Raises:
        InputError: ``out`` exists or is inside a part, a part is not a folder, or the parts do not fit together.
    """
    parts, out = {"detector": Path(detector), "judge": Path(judge)}, Path(out)
    for part in parts.values():
        if not part.is_dir():
            raise InputError(f"{part}: no such folder")
    check_new(out, parts.values())
    with new_folder(out) as folder:
        for name, part in parts.items():
            shutil.copytree(part, folder / name)
        marker = {"parts": list(parts), "low": step.low, "high": step.high}
        write_json(folder / CascadeClassifier.MARKER, marker)
        # With this record, evaluations on rows that a part was trained or calibrated on report the leakage.
        calibrated = [name for part in parts.values() for name in leakage.calibrations(record.read(part))]
        measured = {
            "parts": [name_with_digest(str(part)) for part in parts.values()],
            "config": config,
            "data_name": data_name,
            "rows": len(rows),
            "share": step.share,
            "curve": [asdict(each) for each in curve],
        }
        run = {
            record.CASCADE: measured,
            "ancestors": leakage.ancestors(map(str, parts.values())),
            "calibrated_parts": list(dict.fromkeys(calibrated)),
        }
        if reason := finalize(folder, rows, precision=precision):
            logging.getLogger(__name__).warning("%s %s", out, reason)
            run[record.RULE_KEPT] = reason
        write_json(folder / RECORD, run)
        model_card(folder, name=out.resolve().name).save(folder / "README.md")
    return out
