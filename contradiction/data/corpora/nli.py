"""Chinese NLI corpora in their public formats, as a data repo to fine-tune a backbone on first (paper, section 5.2).

Premise and hypothesis with one of three labels: config ``nli`` keeps them, ``nli-2-class`` merges entailment and
neutral to non-contradiction as the paper does.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contradiction.data.splits import write_split
from contradiction.errors import InputError, first_line, kind_of
from contradiction.io.files import new_folder
from contradiction.io.quiet import no_data_bars
from contradiction.labels import LABELS, merge_id

if TYPE_CHECKING:
    from datasets import Dataset

# Each corpus in its own words: the columns of the two texts, that of the label, and the names of the labels.
TEXTS = (("sentence1", "sentence2"), ("text_a", "text_b"), ("premise", "hypothesis"), ("premise", "hypo"))
LABEL = ("label", "gold_label")
NAMES = {name: name for name in LABELS["nli"]} | {
    "contradictory": "contradiction", "蕴含": "entailment", "中立": "neutral", "矛盾": "contradiction"
}  # fmt: skip
LANGUAGE = "zh"
NAME = "Chinese NLI pairs"
SUFFIXES = (".json", ".jsonl", ".tsv", ".txt")
NO_CONSENSUS = "-"  # the annotators did not agree; the authors of CDConv counted these as non-contradiction

Pair = tuple[str, str, str]


def read(corpus: str | Path, split: str = "train") -> list[Pair]:
    """Reads a corpus from a file or a data repo.

    Args:
        corpus: a file of OCNLI or CMNLI (JSON lines), a JSON list, or XNLI (tab-separated with a header: the dev and
            test files of XNLI-1.0, whose rows in other languages than Chinese are left out, and the training files of
            XNLI-MT); or a data repo, by its Hub id or folder, as ``ID``, ``ID:CONFIG`` or ``ID:CONFIG:SPLIT``: for
            instance ``clue/clue:ocnli``, ``clue/clue:cmnli`` or ``facebook/xnli:zh``.
        split: of a data repo, where the corpus does not name one.

    Returns:
        Premise, hypothesis and label name of each row; rows without consensus (label ``-``, or -1 in a data repo) are
        left out.

    Raises:
        InputError: there is no such file or repo, a row is not in one of these formats, or none is Chinese; the message
            names the place.
    """
    pairs = []
    others: set[str] = set()
    for where, row in _rows(Path(corpus)) if _is_file(corpus) else _repo_rows(str(corpus), split):
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: got {kind_of(row)}; a row is one JSON object")
        if (language := row.get("language", LANGUAGE)) != LANGUAGE:
            others.add(str(language))
            continue
        columns = next((each for each in TEXTS if all(isinstance(row.get(name), str) for name in each)), None)
        if columns is None:
            known = " or ".join(" and ".join(each) for each in TEXTS)
            raise InputError(f"{where}: has {', '.join(map(str, row))}; the texts must be in {known}")
        label = next((row[name] for name in LABEL if name in row), None)
        if label == NO_CONSENSUS:
            continue
        if not isinstance(label, str) or label not in NAMES:
            raise InputError(f"{where}: label {label!r}; allowed are {', '.join(NAMES)} and {NO_CONSENSUS}")
        pairs.append((row[columns[0]], row[columns[1]], NAMES[label]))
    if others and not pairs:
        raise InputError(f"{corpus}: no row is of language {LANGUAGE}; there are {', '.join(sorted(others))}")
    return pairs


def _is_file(corpus: str | Path) -> bool:
    path = Path(corpus)
    if not path.is_file() and path.suffix in SUFFIXES:
        raise InputError(f"{corpus}: no such file; an NLI corpus is a .json or .tsv file, or ID:CONFIG of a data repo")
    return path.is_file()


def _repo_rows(corpus: str, split: str) -> Iterator[tuple[str, Any]]:
    """Each row with its place, the label by its name."""
    from datasets import ClassLabel, load_dataset
    from datasets.exceptions import DatasetsError

    repo, _, rest = corpus.partition(":")
    config, _, named = rest.partition(":")
    if not Path(repo).is_dir() and repo.count("/") != 1:
        raise InputError(f"{corpus}: no such file or folder, and no Hub id, which would be OWNER/NAME:CONFIG")
    try:
        with no_data_bars():
            rows = load_dataset(repo, config or None, split=named or split)
    except (DatasetsError, ValueError, OSError) as error:
        raise InputError(f"{corpus}: cannot be loaded ({first_line(error)})") from error
    label = rows.features.get("label")
    for number, row in enumerate(rows, start=1):
        if isinstance(label, ClassLabel):
            row["label"] = NO_CONSENSUS if row["label"] < 0 else label.int2str(row["label"])
        yield f"{corpus}:row {number}", row


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Each row with its place. Lines end with a line feed alone: other separators may stand inside a text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError as error:
        raise InputError(f"{path}: not UTF-8 ({error})") from None
    if path.suffix == ".tsv":
        header, *lines = (line.rstrip("\r").split("\t") for line in text.rstrip("\n").split("\n"))
        for number, cells in enumerate(lines, start=2):
            # Quotes are part of the text in XNLI, not of the format, so this is no CSV.
            yield f"{path}:{number}", dict(zip(header, cells, strict=False))
        return
    whole = text.lstrip().startswith("[")
    parts = [text] if whole else text.split("\n")
    for number, part in enumerate(parts, start=1):
        if not part.strip():
            continue
        try:
            found = json.loads(part)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: neither JSON lines, nor a JSON list, nor a .tsv ({error})") from None
        if whole:
            yield from ((f"{path}:row {row}", each) for row, each in enumerate(found, start=1))
        else:
            yield f"{path}:{number}", found


def build(train: Iterable[str | Path], validation: Iterable[str | Path], out: str | Path) -> dict[str, int]:
    """Writes the data repo of NLI corpora.

    A training pair that also stands in the validation split, or a second time in the training split, is left out.

    Args:
        train: corpora of the training split, see :func:`read`.
        validation: corpora of the validation split.
        out: the folder; it must not exist yet.

    Returns:
        Rows of each split, and ``dropped``, the training pairs left out.

    Raises:
        InputError: a corpus is not valid, a split is empty, or ``out`` exists.
    """
    out = Path(out)
    if out.exists():
        raise InputError(f"{out}: exists already; remove it, or name another folder")
    held_out = _unseen((pair for corpus in validation for pair in read(corpus, "validation")), set())
    seen = {pair[:2] for pair in held_out}
    raw = [pair for corpus in train for pair in read(corpus, "train")]
    kept = _unseen(raw, seen)
    for name, pairs in (("training", kept), ("validation", held_out)):
        if not pairs:
            raise InputError(f"the {name} split has no rows; name at least one corpus")
    with no_data_bars(), new_folder(out) as folder:
        files = {
            config: {
                split: f"{config}/{write_split(_rows_of(pairs, config), folder / config, split)}"
                for split, pairs in (("train", kept), ("validation", held_out))
            }
            for config in ("nli", "nli-2-class")
        }
        (folder / "README.md").write_text(_card(files), encoding="utf-8")
    return {"train": len(kept), "validation": len(held_out), "dropped": len(raw) - len(kept)}


def _unseen(pairs: Iterable[Pair], seen: set[tuple[str, str]]) -> list[Pair]:
    fresh = []
    for pair in pairs:
        if pair[:2] not in seen:
            seen.add(pair[:2])
            fresh.append(pair)
    return fresh


def _rows_of(pairs: list[Pair], config: str) -> "Dataset":
    from datasets import ClassLabel, Dataset, Features, Value

    names = LABELS["nli"] if config == "nli" else LABELS["2-class"]
    ids = [LABELS["nli"].index(label) for _, _, label in pairs]
    features = Features(
        id=Value("int32"), premise=Value("string"), hypothesis=Value("string"), label=ClassLabel(names=list(names))
    )
    return Dataset.from_dict(
        {
            "id": list(range(1, len(pairs) + 1)),
            "premise": [premise for premise, _, _ in pairs],
            "hypothesis": [hypothesis for _, hypothesis, _ in pairs],
            "label": ids if config == "nli" else [merge_id("nli", each) for each in ids],
        },
        features=features,
    )


def _card(files: Mapping[str, Mapping[str, str]]) -> str:
    configs = "".join(
        f"- config_name: {config}\n  data_files:\n"
        + "".join(f"  - split: {split}\n    path: {path}\n" for split, path in paths.items())
        for config, paths in files.items()
    )
    return (
        f"---\npretty_name: {NAME}\nlanguage:\n- zh\nconfigs:\n{configs}---\n\n# {NAME}\n\nBuilt by `cdconv data nli` "
        "for the NLI stage before CDConv. The licences of the corpora it was built from apply.\n"
    )
