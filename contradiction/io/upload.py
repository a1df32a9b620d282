"""Sends files to a repo on the Hugging Face Hub."""

import sys
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from contradiction.errors import InputError
from contradiction.io.quiet import no_hub_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from huggingface_hub import HfApi, RepoCard

# What loaders read from a repo. Such files of an earlier push would still be loaded, so a push deletes them.
LOADED = ("*.json", "*.safetensors", "*.onnx", "*.bin", "*.model", "*.txt", "*.parquet", "*.py", "SHA256SUMS")
LOG_IN = "`hf auth login` stores a token that may write"


@dataclass(frozen=True)
class Upload:
    """What goes to one repo.

    Attributes:
        repo_type: ``model``, ``dataset`` or ``space``.
        files: what to send: path in the repo -> a local file, or the content itself.
        card: the repo's card, which is one of the files.
        message: the commit message.
        variables: the variables of a Space.
    """

    repo_type: str
    files: Mapping[str, Path | bytes]
    card: "RepoCard"
    message: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes, by its path in the repo."""
        return {
            name: len(content) if isinstance(content, bytes) else content.stat().st_size
            for name, content in self.files.items()
        }


@dataclass(frozen=True)
class PushResult:
    """What a push did.

    Attributes:
        url: the address of the repo.
        changed: whether there was anything to commit.
        deleted: files of an earlier push that this one deleted.
        not_set: variables of a Space that this Hub cannot set.
    """

    url: str
    changed: bool
    deleted: tuple[str, ...]
    not_set: Mapping[str, str]


def push(
    upload: Upload, repo_id: str, *, private: bool | None = None, token: str | None = None, code: str | None = None
) -> PushResult:
    """Sends an upload to a repo in one commit, and creates the repo if it does not exist.

    The same commit deletes the files of an earlier push that loaders would still read (``LOADED``), for instance the
    ``stages.json`` of another kind of detector. The history keeps them, and other files of the user stay. If nothing
    has changed, there is no commit. The variables of a Space are set first, so that its new files start with them. The
    description of the commit names the commit of the ``code`` that made the files. The stored token is used if none is
    given.

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
        not_set = {key: value for key, value in upload.variables.items() if not _set_variable(api, repo_id, key, value)}
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
    return PushResult(str(url), commit.oid != before.sha, deleted, not_set)


def check_repo_id(repo_id: str) -> None:
    """Raises InputError unless the id has the form ``user/name``."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    if repo_id.count("/") != 1:
        raise InputError(f"{repo_id}: a Hub id has the form user/name")
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InputError(f"{repo_id}: not a Hub id. {error}") from None


def _set_variable(api: "HfApi", repo_id: str, key: str, value: str) -> bool:
    """Sets a variable of a Space; False on a Hub without variables, such as some mirrors."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        api.add_space_variable(repo_id, key, value)
    except HfHubHTTPError as error:
        if error.response.status_code not in (404, 405, 501):
            raise
        return False
    return True


@contextmanager
def _hub_errors(repo_id: str) -> "Iterator[None]":
    """Turns what the Hub's client raises inside the block into an InputError that says what to do."""
    from huggingface_hub.errors import HTTPError

    try:
        yield
    except InputError:
        raise
    # RuntimeError: a large file could not be sent. ValueError: the Hub refuses the card.
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{repo_id}: {_remedy(error)}") from error


def _remedy(error: Exception) -> str:
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled

    cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ else error
    if isinstance(cause, HfHubHTTPError):
        status = cause.response.status_code
        message = cause.server_message or " ".join(str(cause).split())
        if status == 401:
            return f"the Hub does not know this token; {LOG_IN}"
        if status == 403:
            return f"this token may not write there; {LOG_IN} ({message})"
        return f"the Hub refused ({status}: {message})"
    if isinstance(cause, OfflineModeIsEnabled):
        return "the offline mode is on; unset HF_HUB_OFFLINE to publish"
    if isinstance(cause, (HTTPError, OSError)):
        return (
            f"the connection to the Hub failed ({type(cause).__name__}: {cause}); push again, what has arrived is not "
            "sent twice"
        )
    return f"the Hub refused ({cause})"
