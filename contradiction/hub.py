"""Single files of a model repo on the Hub that it may or may not hold."""

from pathlib import Path


def fetched(repo_id: str, file: str) -> Path | None:
    """A file of a model repo, fetched into the cache; None where there is no such file, or no such repo.

    What the name then is, loading it as a checkpoint says.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(repo_id, file))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError):
        return None


def revision(repo_id: str) -> str | None:
    """The commit at which a model repo stands, by its configuration in the cache; None where that is not known."""
    file = fetched(repo_id, "config.json")
    # .../snapshots/COMMIT/config.json
    return file.parent.name if file else None
