"""What a Hub repo holds, checked before anything is sent, and sent there in one commit."""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from contradiction.errors import InputError
from contradiction.methods import kernel, kernel_regression
from contradiction.methods.loading import checkpoints, parts
from contradiction.paths import METRIC, PACKAGE, SPACE
from contradiction.reports.card_examples import code_on_the_hub
from contradiction.training import record

if TYPE_CHECKING:
    from huggingface_hub import HfApi, RepoCard

CARD = "README.md"
RELEASE = "CDConv"  # the pretty_name of the released file's card; the sample and other files have other names
MODEL_VARIABLE = "CDCONV_MODEL"
LOADED = (".json", ".safetensors", ".bin", ".model", ".txt", ".parquet", ".py")  # what loaders take from a repo
LEFT_OUT = (".partial", ".old", ".pyc", ".lock", ".tmp")
NOT_IN_SPACE = ("space/", "recipes/")  # an installed package holds these two beside the library
LOG_IN = "`hf auth login` stores one that may write"


@dataclass(frozen=True)
class Upload:
    """What goes to one repo.

    Attributes:
        repo_type: ``model``, ``dataset`` or ``space``.
        files: what to send, by the path in the repo.
        card: the repo's card, which is one of the files.
        message: of the commit.
        variables: of a Space.
    """

    repo_type: str
    files: Mapping[str, Path | bytes]
    card: "RepoCard"
    message: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def sizes(self) -> dict[str, int]:
        """The bytes of each file, by its path in the repo."""
        return {
            name: len(content) if isinstance(content, bytes) else content.stat().st_size
            for name, content in self.files.items()
        }


@dataclass(frozen=True)
class Published:
    """What became of an upload.

    Attributes:
        url: of the repo.
        changed: whether there was anything to commit.
        deleted: files that lay in the repo, are not in the upload, and would have been loaded with it.
        not_set: variables of a Space that its Hub does not take.
    """

    url: str
    changed: bool
    deleted: tuple[str, ...]
    not_set: Mapping[str, str]


def model(folder: str | Path, repo_id: str | None = None, *, dataset: str | None = None) -> Upload:
    """The model repo of a folder: a checkpoint with its tokenizer, or one a stage or member, and a card.

    Args:
        folder: the model folder.
        repo_id: where it goes, for the code on its card; by default the card stays as it is.
        dataset: the Hub id of the data that it was trained on, for the card to link; without it a pushed card links
            none, because the name of a folder leads nowhere on the Hub.

    Raises:
        InputError: the folder is not that, or what is to be named is no Hub id.
    """
    from huggingface_hub import ModelCard

    for each in filter(None, (repo_id, dataset)):
        check_repo_id(each)
    folder = _existing(folder)
    for place in parts(folder):
        if (place / kernel.FILE).is_file():
            for name in (kernel_regression.FILE, kernel_regression.ARRAYS):
                _demand(place, name, "what was fitted; `cdconv train` writes it")
    for place in checkpoints(folder):
        _demand(place, "config.json", "a model's configuration; `cdconv train` writes one")
        _demand(place, "tokenizer_config.json", "its tokenizer's configuration; `cdconv train` writes one")
        if not [*place.glob("*.safetensors"), *place.glob("pytorch_model*.bin")]:
            raise InputError(f"{place}: no weights (*.safetensors)")
    card, files = _card(folder, ModelCard, "`cdconv card` writes it"), _files(folder)
    if repo_id:
        for place in checkpoints(folder):
            if place != folder and (place / CARD).is_file():
                stage = place.relative_to(folder).as_posix()
                own = _on_the_hub(_card(place, ModelCard), repo_id, dataset, stage)
                files[f"{stage}/{CARD}"] = str(own).encode()
        card = _on_the_hub(card, repo_id, dataset)
        files[CARD] = str(card).encode()
    return Upload("model", files, card, f"{folder.resolve().name}: checkpoint and card")


def _on_the_hub(card: "RepoCard", repo_id: str, dataset: str | None, place: str = "") -> "RepoCard":
    """A model card, changed to name what can be found from anywhere."""
    title = re.search(r"^# (.+)$", card.text, flags=re.MULTILINE)
    if title:  # the name that it was written for
        card.text = code_on_the_hub(card.text, [title[1].strip()], repo_id, place)
    card.data["datasets"] = [dataset] if dataset else None
    for each in card.data.get("eval_results") or []:
        each.dataset_type = dataset or each.dataset_type
    return card


def data_set(folder: str | Path = "cdconv", *, any_data: bool = False) -> Upload:
    """The data repo of a folder that ``cdconv data build`` wrote: Parquet for every config, and the card.

    Args:
        folder: the data repo.
        any_data: also where the card says that this is not the released CDConv.

    Raises:
        InputError: the folder is not a data repo, or not CDConv.
    """
    from huggingface_hub import DatasetCard

    folder = _existing(folder)
    card = _card(folder, DatasetCard, "`cdconv data build` writes it")
    files = _files(folder)
    if scripts := [name for name in files if name.endswith(".py")]:
        raise InputError(f"{folder / scripts[0]}: a data repo holds no code; `datasets` refuses one that does")
    configs = _data_files(folder, card.data.to_dict().get("configs"))
    for config, patterns in configs.items():
        for pattern in patterns:
            if not any(name.endswith(".parquet") and fnmatchcase(name, pattern) for name in files):
                raise InputError(f"{folder}: no Parquet at {pattern}, which the card names for the config {config!r}")
    name = card.data.get("pretty_name") or f"{folder.resolve().name}, without a pretty_name"
    if name != RELEASE and not any_data:
        raise InputError(
            f"{folder}: its card calls it {name!r}, which is not {RELEASE}; --any-data publishes it as what it is"
        )
    return Upload("dataset", files, card, f"{name}: {len(configs)} configs in Parquet, and the card")


def _data_files(folder: Path, configs: Any) -> dict[str, list[str]]:
    """The patterns of each config; a card may say anything, so whatever has another shape is refused."""
    try:
        found = {str(each["config_name"]): [str(part["path"]) for part in each["data_files"]] for each in configs}
    except (TypeError, KeyError):
        found = {}
    if not found:
        raise InputError(f"{folder / CARD}: names no configs with their data_files; `cdconv data build` writes them")
    return found


def metric(repo_id: str) -> Upload:
    """The metric's Space.

    Raises:
        InputError: the repo has another name than the metric's file, where ``evaluate.load`` would not find it.
    """
    from huggingface_hub import SpaceCard

    if repo_id.rpartition("/")[2] != METRIC.name:
        raise InputError(f"{repo_id}: evaluate.load looks for a file named like the repo; name it USER/{METRIC.name}")
    return Upload("space", _files(METRIC), _card(METRIC, SpaceCard), "The metric of CDConv, and its page")


def space(model: str | None = None) -> Upload:
    """The demo page's Space: the page, and the library beside it.

    Args:
        model: the Hub id of its detector; by default what the Space's variable CDCONV_MODEL says already.

    Raises:
        InputError: the model is not a Hub id.
    """
    from huggingface_hub import SpaceCard

    library = {name: path for name, path in _files(PACKAGE).items() if not name.startswith(NOT_IN_SPACE)}
    files = _files(SPACE) | {f"{PACKAGE.name}/{name}": path for name, path in library.items()}
    card = _card(SPACE, SpaceCard)
    if model is None:
        return Upload("space", files, card, "The demo page of CDConv")
    check_repo_id(model)
    if Path(model).is_dir():
        raise InputError(f"{model}: a folder here, where a Space cannot see it; `cdconv push model` gives it a Hub id")
    card.data["models"] = [model]  # what links the two on the Hub; the variable is what the page reads
    files[CARD] = str(card).encode()
    return Upload("space", files, card, f"The demo page of CDConv, with {model}", {MODEL_VARIABLE: model})


def check_repo_id(repo_id: str) -> None:
    """Raises InputError for what is no ``user/name``."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    if repo_id.count("/") != 1:
        raise InputError(f"{repo_id}: a Hub id has the form user/name")
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(f"{repo_id}: not a Hub id. {error}") from None


def push(upload: Upload, repo_id: str, *, private: bool = False) -> Published:
    """Sends an upload into a repo, in one commit; makes the repo where there is none.

    Of what lies there under other paths, the files that loaders read are deleted by that commit, because they would be
    loaded still: the ``stages.json`` of another kind of detector, Parquet that a config's pattern takes in. The history
    keeps them, and a picture or a paper of the user's stays. A push of what is there already makes no commit. The
    variables of a Space are set before, so that its new files start with them.

    Args:
        upload: what to send.
        repo_id: where to, ``user/name``.
        private: whether nobody else may see it.

    Raises:
        InputError: the Hub cannot be reached, does not know the user, or refuses; no file is then half there.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token
    from huggingface_hub.errors import HTTPError
    from huggingface_hub.utils import disable_progress_bars

    check_repo_id(repo_id)
    if not sys.stderr.isatty():
        disable_progress_bars()
    api = HfApi(library_name="cdconv")
    repo_type = upload.repo_type
    code = record.commit()
    try:
        if get_token() is None:
            raise InputError(f"{repo_id}: no token to publish with; {LOG_IN}")
        upload.card.validate(repo_type)  # before there is a repo that would stay empty
        sdk = "gradio" if repo_type == "space" else None
        # None, not False: what a new repo is by default is the organisation's to say.
        url = api.create_repo(repo_id, repo_type=repo_type, private=private or None, exist_ok=True, space_sdk=sdk)
        before = api.repo_info(repo_id, repo_type=repo_type)
        if private and not before.private:
            raise InputError(f"{repo_id}: exists and is public; make it private in its settings, then push again")
        there = api.list_repo_files(repo_id, repo_type=repo_type)
        deleted = tuple(name for name in there if name not in upload.files and name.endswith(LOADED))
        not_set = {key: value for key, value in upload.variables.items() if not _set(api, repo_id, key, value)}
        commit = api.create_commit(
            repo_id,
            [
                *(CommitOperationAdd(name, content) for name, content in upload.files.items()),
                *(CommitOperationDelete(name, is_folder=False) for name in deleted),
            ],
            repo_type=repo_type,
            commit_message=upload.message,
            commit_description=f"Pushed from commit {code}" if code else None,
        )
    except InputError:
        raise
    # RuntimeError: what went wrong while a large file was sent. ValueError: a card that the Hub refuses.
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        _refuse(error, repo_id)
    return Published(str(url), commit.oid != before.sha, deleted, not_set)


def _set(api: "HfApi", repo_id: str, key: str, value: str) -> bool:
    """Sets a variable of a Space; False on a Hub that has no variables, as some mirrors."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        api.add_space_variable(repo_id, key, value)
    except HfHubHTTPError as error:
        if error.response.status_code not in (404, 405, 501):
            raise
        return False
    return True


def _refuse(error: Exception, repo_id: str) -> NoReturn:
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled

    cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        said = cause.server_message or " ".join(str(cause).split())
        words = {
            401: f"the Hub does not know this token; {LOG_IN}",
            403: f"this token may not write there; {LOG_IN} ({said})",
        }.get(status, f"the Hub refused ({status}: {said})")
    elif isinstance(cause, OfflineModeIsEnabled):
        words = "the offline mode is on; unset HF_HUB_OFFLINE to publish"
    elif isinstance(cause, (HTTPError, OSError)):
        words = (
            f"the connection to the Hub failed ({type(cause).__name__}: {cause}); push again: what is there already is "
            "not sent twice"
        )
    else:
        words = f"the Hub refused ({cause})"
    raise InputError(f"{repo_id}: {words}") from error


def _files(folder: Path) -> dict[str, Path | bytes]:
    """All files, but caches, what is hidden, and what is not finished."""
    paths: Iterable[Path] = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths if _wanted(path.relative_to(folder))}


def _wanted(path: Path) -> bool:
    return not any(part.startswith(".") or part == "__pycache__" or part.endswith(LEFT_OUT) for part in path.parts)


def _card(folder: Path, kind: type["RepoCard"], origin: str = "a repo has a card") -> "RepoCard":
    from huggingface_hub import metadata_load
    from yaml import YAMLError

    path = folder / CARD
    _demand(folder, CARD, f"the card; {origin}")
    try:
        # Asked here, because the library takes a card without metadata for one whose metadata are empty.
        if not metadata_load(path):
            raise ValueError("it does not begin with metadata between two lines of ---")
        return kind(path.read_text(encoding="utf-8"))
    # TypeError: metadata of a wrong shape, such as eval results without a metric.
    except (YAMLError, ValueError, TypeError) as error:
        raise InputError(f"{path}: not a valid card ({error})") from error


def _existing(folder: str | Path) -> Path:
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder")
    return Path(folder)


def _demand(folder: Path, name: str, what: str) -> None:
    if not (folder / name).is_file():
        raise InputError(f"{folder}: no {name} ({what})")
