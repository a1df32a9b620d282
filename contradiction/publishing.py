"""What a repo on the Hub holds: one function for each kind. The code on its card loads from this repo.

Each checks the files before anything is sent, and raises InputError if one is missing or an id is not one of the
Hub.
"""

import json
import re
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.errors import InputError
from contradiction.io import manifest
from contradiction.io.endpoint import KEY, URL
from contradiction.io.files import json_text, read_json
from contradiction.io.hub import CARD, Upload, check_repo_id
from contradiction.labels import RELEASE
from contradiction.methods.decoder import BASE_MODEL, DecoderClassifier
from contradiction.methods.llm_judge import ANSWERS, LLMJudge
from contradiction.methods.loading import method_of, parts_of
from contradiction.paths import METRIC, PACKAGE, SPACE

if TYPE_CHECKING:
    from huggingface_hub import RepoCard

MODEL_VARIABLE = "CDCONV_MODEL"
UNFINISHED = (".partial", ".old", ".pyc", ".lock", ".tmp")
# Options of a judge that only its owner should see, or has: a key, an address, the folder of a model.
PRIVATE_NAME = re.compile(r"(key|token|secret|password|authorization|credentials?)$", re.IGNORECASE)
PRIVATE_VALUE = re.compile(r"://|^[~.]*/|^[A-Za-z]:\\|^(sk|hf)[-_]|\blocalhost\b|\b\d{1,3}(\.\d{1,3}){3}\b|:\d{4,5}\b")
# Parts of the package that the page does not read.
NOT_IN_SPACE = (
    "data/crossed/",
    "data/crossed_long/",
    "data/crossed_en/",
    "data/neutral_sentences.txt",
    "probing/",
    "recipes/",
    "space/",
)


def model(folder: str | Path, repo_id: str, *, dataset: str | None = None) -> Upload:
    """The repo of a model: its checkpoints with their tokenizers, and a card.

    Args:
        folder: the model folder.
        repo_id: the repo.
        dataset: the Hub id of the training data, for the card to link. By default it links what it names: for CDConv,
            the repo of its authors.
    """
    from huggingface_hub import ModelCard

    for name in filter(None, (repo_id, dataset)):
        check_repo_id(name)
    folder = _existing(folder)
    changed: dict[Path, bytes] = {}
    for part in parts_of(folder):
        method = method_of(part)
        method.check_folder(part)
        described = method.describe(part)
        if method is LLMJudge and (option := _private_option(part / method.MARKER)):
            raise InputError(
                f"{part / method.MARKER}: {option!r} looks like a key, an address or a folder, which a push would make "
                f"public; set key and address in ${KEY} and ${URL}, and name the model by its Hub id"
            )
        if Path(str(base := described.get("base"))).is_absolute():
            if not described.get(BASE_MODEL):
                raise InputError(f"{part}: others do not have its base {base}; train it with its Hub id as base_model")
            changed |= _with_base(part, str(described[BASE_MODEL]))
    card = _card(folder, ModelCard, "`cdconv card` writes it")
    if title := re.search(r"^# (.+)$", card.text, flags=re.MULTILINE):  # the local name of the model
        card.text = code_on_the_hub(card.text, title[1].strip(), repo_id)
    if dataset:
        card.data["datasets"] = [dataset]
        for result in card.data.get("eval_results") or []:
            result.dataset_type = dataset
    # The Hub shows the card of the whole model alone. The answers of a judge are of use at its own endpoint alone.
    files = {
        name: changed.get(file, file)
        for name, file in _files(folder).items()
        if not name.endswith(f"/{CARD}") and file.name != ANSWERS
    }
    return Upload("model", files, card, f"{folder.resolve().name}: checkpoint and card")


def _with_base(part: Path, base: str) -> dict[Path, bytes]:
    """The files of a causal detector that name the folder of its base, with a Hub id instead; and the manifest."""
    files, sums = {}, part / manifest.NAME
    digests = sums.read_bytes() if sums.is_file() else b""
    for name, key in ((DecoderClassifier.MARKER, "base"), ("adapter_config.json", "base_model_name_or_path")):
        files[part / name] = content = json_text(read_json(part / name) | {key: base}).encode()
        digests = digests.replace(manifest.sha256(part / name).encode(), sha256(content).hexdigest().encode())
    return {**files, sums: digests}


def _private_option(file: Path) -> str | None:
    """The first option in the file of a judge that looks private; None without one."""
    options: list[tuple[str, Any]] = []
    json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=options.extend)  # also those within others
    for name, value in options:
        texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        if any(PRIVATE_NAME.search(name) or PRIVATE_VALUE.search(text) for text in texts):
            return name
    return None


def code_on_the_hub(card: str, name: str, repo_id: str) -> str:
    """The text of a card with the Hub id in its Python code instead of the folder name.

    Libraries cannot load a model from a folder of a repo, such as a stage, so the code fetches the repo first.
    """
    loading_call = re.compile(rf'(model=|from_pretrained\()"{re.escape(name)}(/[^"]*)?"')

    def on_the_hub(match: re.Match[str]) -> str:
        return f'{match[1]}snapshot_download("{repo_id}") + "{match[2]}"' if match[2] else f'{match[1]}"{repo_id}"'

    def block(match: re.Match[str]) -> str:
        code = loading_call.sub(on_the_hub, match[2])
        import_line = "from huggingface_hub import snapshot_download\n" if "snapshot_download(" in code else ""
        return f"{match[1]}{import_line}{code}{match[3]}"

    return re.sub(r"(```python\n)(.*?)(```)", block, card, flags=re.DOTALL)


def dataset(folder: str | Path, repo_id: str, *, any_data: bool = False) -> Upload:
    """The repo of a data set: the Parquet files of every config, and the card.

    Args:
        folder: the data repo.
        repo_id: the repo.
        any_data: whether it may hold other data than the released CDConv.
    """
    from huggingface_hub import DatasetCard

    check_repo_id(repo_id)
    folder = _existing(folder)
    card = _card(folder, DatasetCard, "`cdconv data build` writes it")
    files = _files(folder)
    if scripts := [name for name in files if name.endswith(".py")]:
        raise InputError(f"{folder / scripts[0]}: a data repo holds no code; `datasets` refuses one that does")
    try:
        configs = {row["config_name"]: [part["path"] for part in row["data_files"]] for row in card.data["configs"]}
    except (TypeError, KeyError):
        raise InputError(f"{folder / CARD}: names no configs with their data_files") from None
    for config, patterns in configs.items():
        for pattern in patterns:
            if not any(name.endswith(".parquet") and fnmatchcase(name, pattern) for name in files):
                raise InputError(f"{folder}: no Parquet at {pattern}, which the card names for the config {config!r}")
    name = card.data.get("pretty_name") or f"{folder.resolve().name}, without a pretty_name"
    if name != RELEASE and not any_data:
        raise InputError(
            f"{folder}: its card calls it {name!r}, which is not {RELEASE}; --any-data publishes it under that name"
        )
    card.text = card.text.replace('load_dataset("cdconv"', f'load_dataset("{repo_id}"')
    return Upload("dataset", files, card, f"{name}: {len(configs)} configs in Parquet, and the card")


def metric(repo_id: str) -> Upload:
    """The Space of the metric; ``evaluate.load`` finds it only in a repo that has the name of its file."""
    from huggingface_hub import SpaceCard

    if repo_id.rpartition("/")[2] != METRIC.name:
        raise InputError(f"{repo_id}: evaluate.load looks for a file named like the repo; name it USER/{METRIC.name}")
    card = _card(METRIC, SpaceCard)
    card.text = card.text.replace('evaluate.load("./evaluate_metric"', f'evaluate.load("{repo_id}"')
    return Upload("space", _files(METRIC), card, "The metric of CDConv, and its page")


def space(repo_id: str, model: str | None = None) -> Upload:
    """The Space of the demo page: the page, and the library beside it.

    Args:
        repo_id: the repo.
        model: the Hub id of its detector. By default the Space keeps its variable CDCONV_MODEL.
    """
    from huggingface_hub import SpaceCard

    for name in filter(None, (repo_id, model)):
        check_repo_id(name)
    if model and Path(model).is_dir():
        raise InputError(f"{model}: a local folder, which a Space cannot see; `cdconv push model` gives it a Hub id")
    library = {name: path for name, path in _files(PACKAGE).items() if not name.startswith(NOT_IN_SPACE)}
    files = _files(SPACE) | {f"{PACKAGE.name}/{name}": path for name, path in library.items()}
    card = _card(SPACE, SpaceCard)
    card.text = card.text.replace('Client("http://127.0.0.1:7860/")', f'Client("{repo_id}")')
    if not model:
        return Upload("space", files, card, "The demo page of CDConv")
    card.data["models"] = [model]  # links the two repos on the Hub; the page itself reads the variable
    return Upload("space", files, card, f"The demo page of CDConv, with {model}", {MODEL_VARIABLE: model})


def add_code_url(card: "RepoCard", url: str) -> None:
    """Writes below the title of a card where the code is: in a git repository at this address."""
    if not re.fullmatch(r"https://[^\s<>\\]+", url):
        raise InputError(f"{url}: the address of the code must begin with https://")
    sentence = f"Code, documentation and library: <{url}>. `pip install git+{url}` installs the library."
    card.text = re.sub(r"^# .+$", rf"\g<0>\n\n{sentence}", card.text, count=1, flags=re.MULTILINE)


def _files(folder: Path) -> dict[str, Path]:
    """All files of a folder, without caches, hidden files, and files that are not finished."""
    paths = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {relative.as_posix(): path for relative, path in paths.items() if _is_wanted(relative)}


def _is_wanted(path: Path) -> bool:
    return not any(part.startswith(".") or part == "__pycache__" or part.endswith(UNFINISHED) for part in path.parts)


def _card(folder: Path, kind: type["RepoCard"], origin: str = "every repo needs one") -> "RepoCard":
    from huggingface_hub import metadata_load
    from yaml import YAMLError

    path = folder / CARD
    if not path.is_file():
        raise InputError(f"{folder}: no {CARD} (the card; {origin})")
    try:
        # huggingface_hub accepts a card without metadata, as if its metadata were empty.
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
