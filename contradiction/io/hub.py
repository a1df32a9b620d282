"""Files of repos on the Hugging Face Hub: read, also where it cannot be reached, and sent."""

import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction import paths
from contradiction.errors import InputError, listed
from contradiction.io import manifest
from contradiction.io.environment import no_hub_warnings

if TYPE_CHECKING:
    from huggingface_hub import RepoCard

CONFIG, CARD = "config.json", "README.md"
TIMEOUT = 4.0  # seconds to wait for any answer of the Hub; an unknown name is an error within five
FRESH = 60.0  # seconds for which that answer is reused, at most


def pinned(name: str | Path, revision: str | None) -> str:
    """A model name with its revision: ``user/name`` and ``v1`` -> ``user/name@v1``, which every loader here takes."""
    if revision is None:
        return str(name)
    if Path(name).is_dir():
        raise InputError(f"{name}: a folder, which has no revision {revision!r}; leave the revision out")
    if "@" in str(name):
        raise InputError(f"{name}: states a revision already, and {revision!r} is asked for; give only one")
    return f"{name}@{revision}"


def split_revision(name: str | Path) -> tuple[str, str | None]:
    """The Hub id and the revision of a model name: ``user/name@v1`` -> ``user/name`` and ``v1``; a folder has none."""
    if Path(name).is_dir():
        return str(name), None
    repo_id, _, revision = str(name).partition("@")
    return repo_id, revision or None


def model_name(model: str) -> str:
    """The name of a model in results: the name of a folder, or a Hub id."""
    folder = Path(model).resolve()
    if cached := re.fullmatch(r".*/models--([^/]+)/snapshots/[^/]+", folder.as_posix()):  # in the cache of the Hub
        return cached[1].replace("--", "/", 1)
    return folder.name if folder.is_dir() else model


def models_here(name: str | Path) -> str:
    """The models of this repository, as the end of an error about another name; empty where there are none."""
    folder = paths.SHIPPED.parent
    here = sorted(file.parent.name for file in folder.glob(f"*/{manifest.NAME}"))
    return f"; {folder.name}/ holds {listed(here, Path(name).name)}" if here else ""


@contextmanager
def quick_hub() -> Iterator[None]:
    """Runs the block in the offline mode of the libraries if the Hub does not answer within ``TIMEOUT`` seconds.

    Otherwise each of them would try again for minutes.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or _answers(constants.ENDPOINT, int(time.monotonic() // FRESH)):
        yield
        return
    _set_offline(True)
    try:
        yield
    finally:
        _set_offline(False)


def _set_offline(offline: bool) -> None:
    from huggingface_hub import constants

    # `datasets` keeps a copy of the setting from the moment that it is imported.
    settings: list[Any] = [constants, *filter(None, [sys.modules.get("datasets.config")])]
    for module in settings:
        module.HF_HUB_OFFLINE = offline


@lru_cache(maxsize=1)
def _answers(endpoint: str, when: int) -> bool:
    """Whether the endpoint answers; asked in a thread, because a DNS lookup has no timeout.

    The answer is reused for as long as ``when``, the time in units of ``FRESH``, is the same.
    """
    from huggingface_hub.utils import get_session

    answered: list[int] = []

    def ask() -> None:
        try:
            answered.append(get_session().head(endpoint, timeout=TIMEOUT).status_code)
        except Exception:  # after any error the Hub cannot be used
            return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(TIMEOUT)
    return bool(answered)


class HubUnavailableError(InputError):
    """The Hub cannot be asked whether a repo holds a file, and the cache does not know it."""


def fetch_file(name: str | Path, file: str) -> Path | None:
    """A file of a model: in its folder, or downloaded into the cache; None if there is no such file or no such repo.

    It also gives None if the Hub cannot be reached and the cache holds no model of that name; loading the name then
    reports the error. Raises HubUnavailableError if the file may exist, because the cache holds the model or the Hub
    refuses for the moment, and InputError if the repo has no such revision.
    """
    if Path(name).is_dir():
        return Path(name) / file if (Path(name) / file).is_file() else None
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    repo, revision = split_revision(name)
    try:
        with quick_hub():
            return Path(hf_hub_download(repo, file, revision=revision))
    except (RemoteEntryNotFoundError, HFValidationError):
        return None
    except RevisionNotFoundError as error:
        raise InputError(f"{repo}: has no revision {revision or 'main'!r}; it is a branch, tag or commit") from error
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        refusal = error if isinstance(error, HfHubHTTPError) else error.__cause__
        answered = isinstance(refusal, HfHubHTTPError) and not isinstance(refusal, RepositoryNotFoundError)
        cached = isinstance(try_to_load_from_cache(repo, CONFIG, revision=revision), str)
        if _known_absent(repo, revision, file) or not (answered or cached):
            return None
        reason = f"the Hub answers {refusal.response.status_code}" if isinstance(refusal, HfHubHTTPError) else "offline"
        raise HubUnavailableError(
            f"{name}: the cache holds no {file}, and the Hub cannot be asked whether the repo has one ({reason}); "
            f"run `hf download {repo}` once there is a connection"
        ) from error


def _known_absent(repo: str, revision: str | None, file: str) -> bool:
    """Whether the cache knows that a repo has no such file: the Hub said so before, or listed all files."""
    from huggingface_hub import get_cached_repo_tree, try_to_load_from_cache
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    path = try_to_load_from_cache(repo, file, revision=revision)
    if path is not None:
        return not isinstance(path, str)
    try:
        return file not in {entry.path for entry in get_cached_repo_tree(repo, revision=revision)}
    except CachedRepoTreeNotFoundError:
        return False


def revision(repo_id: str | Path, name: str = CONFIG) -> str | None:
    """The commit of a model repo, as the cache holds a file of it; None if it is unknown."""
    try:
        file = fetch_file(repo_id, name)
    except HubUnavailableError:
        return None
    # .../snapshots/COMMIT/config.json
    return file.parent.name if file else None


# What loaders read from a repo. Such files of an earlier push would still be loaded, so a push deletes them.
LOADED = ("*.json", "*.safetensors", "*.onnx", "*.bin", "*.model", "*.txt", "*.parquet", "*.py", "SHA256SUMS")
LOG_IN = "`hf auth login` stores a token that may write"


@dataclass(frozen=True)
class Upload:
    """What goes to one repo.

    Attributes:
        repo_type: ``model``, ``dataset`` or ``space``.
        local: path in the repo -> the local file, or its content, for all files but the card.
        card: the repo's card.
        message: the commit message.
        variables: the variables of a Space.
    """

    repo_type: str
    local: Mapping[str, Path | bytes]
    card: "RepoCard"
    message: str
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, Path | bytes]:
        """What to send: path in the repo -> a local file, or the content of the card."""
        return {**self.local, CARD: str(self.card).encode()}

    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes, by its path in the repo."""
        return {
            name: len(content) if isinstance(content, bytes) else content.stat().st_size
            for name, content in self.files.items()
        }


@dataclass(frozen=True)
class PushResult:
    """What a push did: the address of the repo, whether anything was committed, and the files that were deleted."""

    url: str
    changed: bool
    deleted: tuple[str, ...]


def push(
    upload: Upload, repo_id: str, *, private: bool | None = None, token: str | None = None, code: str | None = None
) -> PushResult:
    """Sends an upload to a repo in one commit, and creates the repo if it does not exist.

    The same commit deletes the files of an earlier push that loaders would still read (``LOADED``), for instance the
    ``stages.json`` of another kind of detector. The history keeps them, and other files of the user stay. If nothing
    has changed, there is no commit. The variables of a Space are set first, so that its new files start with them. The
    description of the commit names the commit of the ``code`` that made the files.

    Raises:
        InputError: the Hub cannot be reached, does not know the user, or refuses. Nothing is committed then.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token
    from huggingface_hub.utils import disable_progress_bars, filter_repo_objects

    check_repo_id(repo_id)
    if not sys.stderr.isatty():
        disable_progress_bars()
    api = HfApi(token=token, library_name="cdconv")
    repo_type = upload.repo_type
    with _hub_errors(repo_id):
        if (token or get_token()) is None:
            raise InputError(f"{repo_id}: no token to publish with; {LOG_IN}")
        upload.card.validate(repo_type)  # before the repo is created, so that no empty one stays behind
        sdk = "gradio" if repo_type == "space" else None
        # None, not False: the organisation's settings decide whether a new repo is public.
        url = api.create_repo(repo_id, repo_type=repo_type, private=private or None, exist_ok=True, space_sdk=sdk)
        before = api.repo_info(repo_id, repo_type=repo_type)
        if private and not before.private:
            raise InputError(f"{repo_id}: exists and is public; make it private in its settings, then push again")
        others = set(api.list_repo_files(repo_id, repo_type=repo_type)) - set(upload.files)
        deleted = tuple(sorted(filter_repo_objects(others, allow_patterns=[*LOADED])))
        for key, value in upload.variables.items():
            api.add_space_variable(repo_id, key, value)
        # Not `upload_folder`, which commits in several parts: a push that is killed would leave half of the files.
        with no_hub_warnings():  # one says that nothing has changed
            commit = api.create_commit(
                repo_id,
                [
                    *(CommitOperationDelete(name) for name in deleted),
                    *(CommitOperationAdd(name, content) for name, content in upload.files.items()),
                ],
                repo_type=repo_type,
                commit_message=upload.message,
                commit_description=f"Pushed from commit {code}" if code else None,
            )
    return PushResult(str(url), commit.oid != before.sha, deleted)


def check_repo_id(repo_id: str) -> None:
    """Raises InputError unless the id has the form ``user/name``."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    if repo_id.count("/") != 1:
        raise InputError(f"{repo_id}: a Hub id has the form user/name")
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(f"{repo_id}: not a Hub id. {error}") from None


@contextmanager
def _hub_errors(repo_id: str) -> "Iterator[None]":
    """Turns what the Hub's client raises inside the block into an InputError that says what to do."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled

    try:
        yield
    except InputError:
        raise
    # RuntimeError: a large file could not be sent. ValueError: the Hub refuses the card.
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
        said = f"the Hub refused ({cause})"
        if isinstance(cause, HfHubHTTPError):
            remedies = {401: "the Hub does not know this token", 403: "this token may not write there"}
            if remedy := remedies.get(cause.response.status_code):
                said = f"{remedy}; {LOG_IN}"
        elif isinstance(cause, OfflineModeIsEnabled):
            said = "the offline mode is on; unset HF_HUB_OFFLINE to publish"
        elif isinstance(cause, (HTTPError, OSError)):
            said = f"the connection to the Hub failed ({cause}); push again, what has arrived is not sent twice"
        raise InputError(f"{repo_id}: {said}") from error
