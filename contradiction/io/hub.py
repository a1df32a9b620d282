"""Single files of a model: in its folder or on the Hugging Face Hub, also when the Hub cannot be reached."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contradiction.errors import InputError

CONFIG = "config.json"
TIMEOUT = 4.0  # seconds to wait for any answer of the Hub; an unknown name is an error within five
FRESH = 60.0  # seconds for which that answer is reused


def pinned(name: str | Path, revision: str | None) -> str:
    """A model name with its revision: ``user/name`` and ``v1`` -> ``user/name@v1``, which every loader here takes.

    Raises:
        InputError: a folder has no revisions, or the name states one already.
    """
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
    return Path(model).resolve().name if Path(model).is_dir() else model


_last_check: tuple[float, bool] | None = None  # when the Hub was asked last, and whether it answered
_offline_blocks = 0  # how many blocks of `quick_hub` need the offline mode now; threads share the mode
_lock = threading.Lock()


@contextmanager
def quick_hub() -> Iterator[None]:
    """Runs the block in the offline mode of the libraries if the Hub does not answer within ``TIMEOUT`` seconds.

    Otherwise each of them would try again for minutes. Blocks of several threads can overlap.
    """
    global _offline_blocks
    from huggingface_hub import constants

    with _lock:
        offline = bool(_offline_blocks) or not (constants.HF_HUB_OFFLINE or _hub_answered(constants.ENDPOINT))
        if offline:
            _offline_blocks += 1
            _set_offline(True)
    try:
        yield
    finally:
        if offline:
            with _lock:
                _offline_blocks -= 1
                _set_offline(_offline_blocks > 0)


def _set_offline(offline: bool) -> None:
    from huggingface_hub import constants

    # `datasets` keeps a copy of the setting from the moment that it is imported.
    settings: list[Any] = [constants, *filter(None, [sys.modules.get("datasets.config")])]
    for module in settings:
        module.HF_HUB_OFFLINE = offline


def _hub_answered(endpoint: str) -> bool:
    """Whether the endpoint answers, as found in the last ``FRESH`` seconds."""
    global _last_check
    if _last_check is None or time.monotonic() - _last_check[0] > FRESH:
        _last_check = time.monotonic(), _answers(endpoint)
    return _last_check[1]


def _answers(endpoint: str) -> bool:
    """Whether the endpoint answers; asked in a thread, because a DNS lookup has no timeout."""
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

    It also gives None if the Hub cannot be reached and the cache holds no model of that name. Loading the name as a
    checkpoint then reports the error. ``@`` and a revision may follow the id of the repo.

    Raises:
        HubUnavailableError: the file may exist, because the cache holds the model or the Hub refuses for the moment.
        InputError: the repo has no such revision.
    """
    if Path(name).is_dir():
        return Path(name) / file if (Path(name) / file).is_file() else None
    from huggingface_hub import hf_hub_download
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
        raise InputError(
            f"{repo}: has no revision {revision or 'main'!r}; a branch, a tag or a commit is one"
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        refusal = error if isinstance(error, HfHubHTTPError) else error.__cause__
        answered = isinstance(refusal, HfHubHTTPError) and not isinstance(refusal, RepositoryNotFoundError)
        if _known_absent(repo, revision, file) or not (answered or cached_file(name, CONFIG)):
            return None
        reason = f"the Hub answers {refusal.response.status_code}" if isinstance(refusal, HfHubHTTPError) else "offline"
        raise HubUnavailableError(
            f"{name}: the cache holds no {file}, and the Hub cannot be asked whether the repo has one ({reason}); "
            f"run `hf download {repo}` once there is a connection"
        ) from error


def cached_file(name: str | Path, file: str) -> Path | None:
    """A file of a model repo in the cache; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    repo, revision = split_revision(name)
    path = try_to_load_from_cache(repo, file, revision=revision)
    return Path(path) if isinstance(path, str) else None


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


def revision(repo_id: str) -> str | None:
    """The commit of a model repo, as the cache holds its configuration; None if it is unknown."""
    try:
        file = fetch_file(repo_id, CONFIG)
    except HubUnavailableError:
        return None
    # .../snapshots/COMMIT/config.json
    return file.parent.name if file else None
