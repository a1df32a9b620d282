"""The façade: chat messages in, verdicts out."""

import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from contradiction import publishing
from contradiction.base_detector import BaseDetector
from contradiction.candidates import check, rerank
from contradiction.conversation import Messages, Turn, read_chats
from contradiction.decision import NO_RULE
from contradiction.errors import InputError, kind_of
from contradiction.inference.base import AUTO, OnBatch
from contradiction.inputs.views import MAX_TURNS, TWO_TEXTS, VIEWS, WINDOWED, Row, check_rows
from contradiction.io import manifest
from contradiction.io.files import check_new, new_folder
from contradiction.io.hub import check_repo_id, model_name, pinned, push
from contradiction.labels import CATEGORIES, WITHOUT_RULE
from contradiction.methods.base import Classifier, Prediction
from contradiction.methods.checkpoint import CheckpointClassifier, save_view
from contradiction.methods.loading import chosen_precision, fetch, find_model, load_classifier, parts_of, save_rule
from contradiction.monitor import Monitor
from contradiction.paths import SHIPPED
from contradiction.settings import Settings
from contradiction.spans import locate
from contradiction.verdict import Verdict


class ContradictionDetector(BaseDetector):
    """A trained model with its decision rule, for chats of any length.

    Args:
        classifier: classifies rows of two turns.
        settings: the settings of the operator.

    Raises:
        InputError: the settings do not fit this classifier.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.task}, reads {', '.join(self.columns)}, {self.settings})"

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = SHIPPED,
        *,
        view: str | None = None,
        device: str | None = None,
        precision: str = AUTO,
        backend: str = "torch",
        revision: str | None = None,
        threshold: float | str | None = None,
        prior: float | None = None,
        categories: Sequence[str] = CATEGORIES,
        windowing: str = WINDOWED,
        max_turns: int | None = MAX_TURNS,
    ) -> Self:
        """Loads a detector of any method from a folder or from the Hub.

        Args:
            name: a folder or Hub id, by default the shipped detector of this repository; ``user/name@v1`` names a
                revision as well.
            view: the utterances that it reads, for a checkpoint whose configuration does not say.
            device: for instance ``cpu`` or ``cuda:1``; by default a GPU where there is one.
            precision: ``fp32``, ``bf16``, ``fp16`` or ``int8``; by default the fastest, see
                :func:`contradiction.methods.loading.chosen_precision`.
            backend: ``torch``, ``onnx``, ``openvino`` or ``auto``; see ``load_classifier`` there.
            revision: the branch, tag or commit of a model on the Hub.
            threshold: the probability from which a reply is called a contradiction, or ``"precision>=0.8"``.
            prior: the fraction of contradictions among your replies, for which the probabilities are corrected.
            categories: the kinds of contradiction that count.
            windowing: how earlier turns are read: ``windowed``, ``structured`` or ``unstructured``.
            max_turns: the maximum number of earlier turns that are read; None reads all.

        :class:`contradiction.settings.Settings` says more about the last five.

        Raises:
            InputError: the model does not exist, is damaged or is not a detector, its decision rule is missing, or a
                setting is wrong.
        """
        settings = Settings(threshold, prior, categories, windowing, max_turns)  # before a large model is loaded
        name = pinned(find_model(name), revision)
        precision = chosen_precision(name, precision, backend, device)
        classifier = load_classifier(name, view=view, device=device, precision=precision, backend=backend)
        _check_reads_chats(classifier)
        check_rule(classifier)
        return cls(classifier, settings)

    def save_pretrained(self, folder: str | Path) -> None:
        """Copies the model to a new folder, from which :meth:`from_pretrained` loads the same detector.

        The copy has all files that the detector was loaded from: weights, tokenizer, decision rule, record and card. It
        names a view that was given to :meth:`from_pretrained`. The settings are not saved.

        Raises:
            InputError: the folder exists or cannot be made, or the model has changed or cannot be downloaded.
        """
        source, classifier = fetch(self.name), self.classifier
        check_new(folder, [source])
        for part in parts_of(source):
            manifest.check(part)
        with new_folder(folder) as copy:
            shutil.copytree(source, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
            if isinstance(classifier, CheckpointClassifier) and classifier.own_view != classifier.view:
                save_view(copy, classifier.view)
                save_rule(copy, classifier.rule)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str | None = None,
        dataset: str | None = None,
    ) -> str:
        """Publishes the model with its card on the Hub, as ``cdconv push model`` does; returns the address of the repo.

        Args:
            repo_id: the repo, ``user/name``. It is created if it does not exist.
            private: whether a new repo is private.
            token: a token that may write; by default the stored one.
            commit_message: by default a message with the name of the model.
            dataset: the Hub id of the training data, for the card to link.

        Raises:
            InputError: the model has no card, the id is not a Hub id, or the Hub cannot be reached, does not know the
                user, or refuses. Nothing is committed then.
        """
        check_repo_id(repo_id)
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / Path(model_name(self.name).partition("@")[0]).name
            self.save_pretrained(folder)
            try:
                upload = publishing.model(folder, repo_id, dataset=dataset)
            except InputError as error:
                raise InputError(str(error).replace(str(folder), self.name)) from error
            upload = replace(upload, message=commit_message or upload.message)
            return push(upload, repo_id, private=private, token=token).url

    def __call__(self, messages: Messages) -> Verdict:
        """Judges the last reply of one chat; see :meth:`batch`."""
        return self.batch([messages])[0]

    def batch(
        self, chats: Sequence[Messages], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Verdict]:
        """Judges the last reply of each chat, in batches of similar length.

        Args:
            chats: lists of ``{"role", "content"}``; see ``contradiction.conversation.read_turns``.
            batch_size: the number of windows in a forward pass.
            on_batch: called with the number of windows done, after each forward pass.

        Returns:
            The verdicts, in the order of the chats.

        Raises:
            InputError: this model does not judge replies, or a chat is not usable; the message names the chat, the
                message in it, and what is allowed.
        """
        return self.judge_last_replies(self._read_chats(chats), batch_size=batch_size, on_batch=on_batch)

    def scan(self, messages: Messages, *, batch_size: int = 32, on_batch: OnBatch | None = None) -> list[Verdict]:
        """Judges every reply of one chat, in order; see :meth:`batch`."""
        return self.scan_batch([messages], batch_size=batch_size, on_batch=on_batch)[0]

    def scan_batch(
        self, chats: Sequence[Messages], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[list[Verdict]]:
        """Judges every reply of each chat, all in one stream of batches; see :meth:`batch`."""
        turns_of_chats = self._read_chats(chats)
        cases = (self.case(turns, place) for turns in turns_of_chats for place in range(len(turns)))
        verdicts = self.judge_replies(cases, batch_size=batch_size, on_batch=on_batch)
        return [list(islice(verdicts, len(turns))) for turns in turns_of_chats]

    def monitor(self, max_turns: int | None = None) -> Monitor:
        """Follows one chat message by message; see :class:`contradiction.monitor.Monitor`."""
        return Monitor(self, max_turns)

    # Functions of a detector, in files of their own.
    rerank, check, locate = rerank, check, locate

    def classify(
        self, rows: Sequence[Row], *, batch_size: int = 32, on_batch: OnBatch | None = None
    ) -> list[Prediction]:
        """Classifies rows of the data set by the decision rule alone; the settings do not apply.

        Raises:
            InputError: a row lacks a column that the model reads, or holds no text there.
        """
        check_rows(rows, self.columns)
        return self.classifier.classify(rows, batch_size=batch_size, on_batch=on_batch)

    def _read_chats(self, chats: Sequence[Messages]) -> list[list[Turn]]:
        self.check_judges_replies()
        if isinstance(chats, str | bytes | Mapping) or not isinstance(chats, Iterable):
            raise InputError(f"chats is {kind_of(chats)}; it must be a list of chats, each a list of messages")
        chats, turns = list(chats), []
        reading = read_chats(chats)
        for number in range(len(chats)):
            try:
                turns.append(next(reading))
            except InputError as error:
                raise InputError(f"chats[{number}]: {error}" if len(chats) > 1 else str(error)) from None
        return turns


def _check_reads_chats(classifier: Classifier) -> None:
    """Raises InputError for a model of pairs of texts, such as an NLI model."""
    name, columns = classifier.name, tuple(classifier.columns)
    if columns in {VIEWS[view] for view in TWO_TEXTS}:
        raise InputError(
            f"{name}: reads {', '.join(columns)}; it judges pairs of texts, not chats. `cdconv train RECIPE --backbone "
            f"{name}` trains a detector from it, and `cdconv evaluate` scores it"
        )


def check_rule(classifier: Classifier) -> None:
    """Raises InputError for a model that has lost its decision rule, and logs a warning for one that never had any."""
    if classifier.rule is not NO_RULE or classifier.task in WITHOUT_RULE:
        return
    name = classifier.name
    if classifier.needs_rule:
        raise InputError(
            f"{name}: its decision rule is missing (cdconv_decision in config.json, or decision.json); copy the "
            "model again, or write a new rule with `cdconv calibrate`"
        )
    logging.getLogger(__name__).warning(
        "%s: has no decision rule, so its probabilities are not calibrated; `cdconv calibrate` writes one", name
    )
