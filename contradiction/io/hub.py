"""Single files of a model repo on the Hub that it may or may not hold."""

from pathlib import Path

from contradiction.errors import InputError

CONFIG = "config.json"


class NotKnownError(InputError):
    """The Hub cannot be asked whether a repo holds a file, and the cache does not say."""


def fetched(repo_id: str, file: str) -> Path | None:
    """A file of a model repo, fetched into the cache; None where there is no such file, or no such repo.

    None also where neither the Hub nor a model of that name in the cache can be reached: what the name then is, loading
    it as a checkpoint says.

    Raises:
        NotKnownError: the model is in the cache, or the Hub refuses for the moment, so that the file may well be there.
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
        if _known_absent(repo_id, file) or not (answered or cached(repo_id, CONFIG)):
            return None
        why = f"the Hub answers {refusal.response.status_code}" if isinstance(refusal, HfHubHTTPError) else "offline"
        raise NotKnownError(
            f"{repo_id}: the cache holds no {file}, and whether the repo has one cannot be asked ({why}); "
            f"`hf download {repo_id}` fetches all of it, once there is a connection"
        ) from error


def cached(repo_id: str, file: str) -> Path | None:
    """A file of a model repo that lies in the cache; None where it does not."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo_id, file)
    return Path(found) if isinstance(found, str) else None


def _known_absent(repo_id: str, file: str) -> bool:
    """Whether the cache says of a repo that it has no such file: the Hub said so once, or listed all of them."""
    from huggingface_hub import get_cached_repo_tree, try_to_load_from_cache
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    found = try_to_load_from_cache(repo_id, file)
    if found is not None:
        return not isinstance(found, str)
    try:
        return file not in {each.path for each in get_cached_repo_tree(repo_id)}
    except CachedRepoTreeNotFoundError:
        return False


def revision(repo_id: str) -> str | None:
    """The commit at which a model repo stands, by its configuration in the cache; None where that is not known."""
    try:
        file = fetched(repo_id, CONFIG)
    except NotKnownError:
        return None
    # .../snapshots/COMMIT/config.json
    return file.parent.name if file else None
