"""Single files of a model repo on the Hugging Face Hub."""

from pathlib import Path

from contradiction.errors import InputError

CONFIG = "config.json"


class HubUnavailableError(InputError):
    """The Hub cannot be asked whether a repo holds a file, and the cache does not know it."""


def fetch_file(repo_id: str, file: str) -> Path | None:
    """Downloads a file of a model repo into the cache; None if there is no such file or no such repo.

    It also gives None if the Hub cannot be reached and the cache holds no model of that name. Loading the name as a
    checkpoint then reports the error.

    Raises:
        HubUnavailableError: the file may exist, because the cache holds the model or the Hub refuses for the moment.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
    )

    try:
        return Path(hf_hub_download(repo_id, file))
    except (RemoteEntryNotFoundError, HFValidationError):
        return None
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        refusal = error if isinstance(error, HfHubHTTPError) else error.__cause__
        answered = isinstance(refusal, HfHubHTTPError) and not isinstance(refusal, RepositoryNotFoundError)
        if _known_absent(repo_id, file) or not (answered or cached_file(repo_id, CONFIG)):
            return None
        why = f"the Hub answers {refusal.response.status_code}" if isinstance(refusal, HfHubHTTPError) else "offline"
        raise HubUnavailableError(
            f"{repo_id}: the cache holds no {file}, and the Hub cannot be asked whether the repo has one ({why}); "
            f"run `hf download {repo_id}` once there is a connection"
        ) from error


def cached_file(repo_id: str, file: str) -> Path | None:
    """A file of a model repo in the cache; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo_id, file)
    return Path(path) if isinstance(path, str) else None


def _known_absent(repo_id: str, file: str) -> bool:
    """Whether the cache knows that a repo has no such file: the Hub said so before, or listed all files."""
    from huggingface_hub import get_cached_repo_tree, try_to_load_from_cache
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    path = try_to_load_from_cache(repo_id, file)
    if path is not None:
        return not isinstance(path, str)
    try:
        return file not in {entry.path for entry in get_cached_repo_tree(repo_id)}
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
