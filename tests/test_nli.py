"""NLI corpora: every public format gives the same pairs, and no validation pair is trained on."""

import hashlib
import json
import ntpath
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value, load_dataset
from helpers.chats import write_jsonl
from helpers.runs import TINY_TOML

from contradiction.data import corpora, nli
from contradiction.data.corpora import data_repo, pairs
from contradiction.data.splits import languages_of
from contradiction.errors import InputError
from contradiction.labels import LABELS

PAIRS = [
    ("他在吃饭", "他在吃东西", "entailment"),
    ("他在吃饭", "他很饿", "neutral"),
    ("他在吃饭", "他在睡觉", "contradiction"),
]
CHINESE = {"entailment": "蕴含", "neutral": "中立", "contradiction": "矛盾"}


def ocnli(path, pairs=PAIRS):
    rows = [{"sentence1": a, "sentence2": b, "label": label, "genre": "lit"} for a, b, label in pairs]
    return write_jsonl(path, rows)


def cmnli(path, pairs=PAIRS):
    rows = [{"id": 0, "text_a": a, "text_b": b, "text_c": "", "label": CHINESE[label]} for a, b, label in pairs]
    path.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def table(path, *rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def xnli(path, pairs=PAIRS, columns=("text_a", "text_b", "label")):
    return table(path, columns, *pairs)


@pytest.mark.parametrize(("write", "name"), [(ocnli, "a.json"), (cmnli, "b.json"), (xnli, "c.tsv")])
def test_every_format_yields_the_same_pairs(tmp_path, write, name):
    assert nli.read(write(tmp_path / name)) == PAIRS
    translated = [("甲", "乙", "contradictory")]  # as in the training file of XNLI
    assert nli.read(xnli(tmp_path / "d.tsv", translated, ("premise", "hypo", "label"))) == [
        ("甲", "乙", "contradiction")
    ]


def test_quotes_and_line_separators_are_text_and_windows_line_ends_are_line_ends(tmp_path):
    pairs = [(f'"{a}\r了', b, label) for a, b, label in PAIRS]
    path = xnli(tmp_path / "c.tsv", pairs)
    assert nli.read(path) == pairs
    separated = [("他在\u2028吃饭", "他在吃东西", "entailment")]
    assert nli.read(ocnli(tmp_path / "a.json", separated)) == separated
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert nli.read(path) == pairs


def test_swapped_labels_of_a_known_file_are_corrected(tmp_path, monkeypatch):
    path = cmnli(tmp_path / "dev.json")
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  cmnli/{path.name}\n", encoding="utf-8")
    monkeypatch.setattr(corpora, "SUMS", sums)
    other = {"entailment": "neutral", "neutral": "entailment", "contradiction": "contradiction"}
    right = [(a, b, other[label]) for a, b, label in PAIRS]
    notes = Counter()
    assert nli.read(path, notes=notes) == right
    count = sum(label != "contradiction" for *_, label in PAIRS)
    assert notes == Counter({pairs.LABELS_EXCHANGED: count}) and count > 0


def hub_repo(folder, config, texts, names, pairs=PAIRS, unlabelled=0):
    """A Parquet repo with the columns and label order of the one on the Hub."""
    rows = [(a, b, names.index(label)) for a, b, label in pairs] + [("甲", "乙", -1)] * unlabelled
    features = Features({texts[0]: Value("string"), texts[1]: Value("string"), "label": ClassLabel(names=names)})
    columns = dict(zip([*texts, "label"], zip(*rows, strict=True), strict=True))
    made = Dataset.from_dict({name: list(values) for name, values in columns.items()}, features=features)
    parts = DatasetDict({"train": made, "validation": made.select([0])})
    for split, part in parts.items():
        part.to_parquet(folder / config / f"{split}.parquet")
    files = "".join(f"  - split: {split}\n    path: {config}/{split}.parquet\n" for split in parts)
    (folder / "README.md").write_text(f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n", "utf-8")
    return folder


@pytest.mark.parametrize(
    ("config", "texts", "names"),
    [
        ("ocnli", ("sentence1", "sentence2"), ["neutral", "entailment", "contradiction"]),  # clue/clue
        ("zh", ("premise", "hypothesis"), ["entailment", "neutral", "contradiction"]),  # facebook/xnli
    ],
)
def test_a_data_repo_is_read_by_label_name(tmp_path, config, texts, names):
    repo = hub_repo(tmp_path / "repo", config, texts, names, unlabelled=2)
    assert nli.read(f"{repo}:{config}") == PAIRS
    assert nli.read(f"{repo}:{config}", "validation") == nli.read(f"{repo}:{config}:validation") == PAIRS[:1]


def test_the_drive_of_a_windows_path_is_part_of_the_folder(tmp_path, monkeypatch):
    repo = hub_repo(tmp_path / "D:" / "repo", "zh", ("premise", "hypothesis"), list(LABELS["nli"]))
    monkeypatch.chdir(repo.parents[1])
    monkeypatch.setattr("os.path.splitdrive", ntpath.splitdrive)
    assert nli.read("D:/repo:zh:validation") == PAIRS[:1]


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("nowhere/dev.json", "nowhere/dev.json: no such file; a corpus is a file, "),
        ("nowhere", "nowhere: no such file or folder; "),
        ("some/repo:ocnli", "some/repo: config 'ocnli' cannot be loaded"),  # offline
        ("some/repo", "some/repo: cannot be loaded"),
        ("{repo}:zh:test", "repo: config 'zh' cannot be loaded"),
    ],
)
def test_the_error_names_a_missing_corpus(tmp_path, corpus, message):
    repo = hub_repo(tmp_path / "repo", "zh", ("premise", "hypothesis"), list(LABELS["nli"]))
    with pytest.raises(InputError) as error:
        nli.read(corpus.format(repo=repo))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_only_the_chinese_rows_of_the_xnli_file_are_read(tmp_path):
    columns = ("language", "gold_label", "sentence1", "sentence2", "promptID", "label1")  # label1 is of one annotator
    bulgarian = ("bg", "contradiction", "Той яде.", "Той спи.", "1", "neutral")
    rows = [
        bulgarian,
        *(("zh", label, one, other, "1", "neutral") for one, other, label in [*PAIRS, ("甲", "乙", "-")]),
    ]
    assert nli.read(table(tmp_path / "xnli.dev.tsv", columns, *rows)) == PAIRS
    with pytest.raises(InputError, match=r"other\.tsv: no row is a pair in Chinese"):
        nli.read(table(tmp_path / "other.tsv", columns, bulgarian))


def test_a_validation_pair_is_never_trained_on(tmp_path):
    more = [("她在跑步", "她在动", "entailment"), ("她在跑步", "她在动", "entailment")]
    rows = nli.build(
        [ocnli(tmp_path / "train.json", [*PAIRS, *more])], [cmnli(tmp_path / "dev.json", PAIRS)], tmp_path / "nli"
    )
    assert (rows.train, rows.validation, rows.dropped) == (1, 3, 4)
    with pytest.raises(InputError, match="training split has no rows"):
        nli.build([tmp_path / "dev.json"], [tmp_path / "dev.json"], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_training_repo_accepts_cnli_and_two_way_pairs(copies, tmp_path):
    train = [copies / "cnli" / "train.txt", copies / "decode" / "pairs.dev.jsonl"]
    dev = [copies / "xnli" / "dev.tsv", copies / "decode" / "test.jsonl"]
    built = nli.build(train, dev, tmp_path / "nli")
    assert (built.train, built.validation, built.two_way) == (8, 4, 1)
    assert built.notes[pairs.JOINED] == 2
    assert languages_of(tmp_path / "nli") == ["en", "zh"]
    rows = load_dataset(str(tmp_path / "nli"), "nli", split="train")
    assert rows["label"][-2:] == [2, nli.UNKNOWN]
    assert rows["contradiction"][-2:] == [True, False]
    assert [label == 2 for label in rows["label"]] == rows["contradiction"][:]
    two = load_dataset(str(tmp_path / "nli"), "nli-2-class", split="train")
    assert two["label"][:] == [int(flag) for flag in rows["contradiction"]]
    assert -1 not in load_dataset(str(tmp_path / "nli"), "nli", split="validation")["label"]
    assert len(load_dataset(str(tmp_path / "nli"), "nli-2-class", split="validation")) == 4
    with pytest.raises(InputError, match="exists already"):
        nli.build(train[:1], dev[:1], tmp_path / "nli")
    nli.build(train[:1], dev[:1], tmp_path / "three")
    three = load_dataset(str(tmp_path / "three"), "nli", split="train")
    assert three.column_names == ["id", "premise", "hypothesis", "label"]  # unchanged if all labels are known


def test_the_command_after_a_training_on_pairs_scores_their_validation_split(copies, tmp_path, run):
    nli.build([copies / "cnli" / "train.txt"], [copies / "xnli" / "dev.tsv"], tmp_path / "nli")
    (tmp_path / "stage.toml").write_text(f'config = "nli"\nview = "nli"\nepochs = 1\n{TINY_TOML}', encoding="utf-8")
    code, out, err = run("train", tmp_path / "stage.toml", "--data", tmp_path / "nli", "--out", tmp_path / "stage")
    assert code == 0, err
    assert run(*out.split("next: cdconv ")[1].split())[0] == 0


def test_pairs_of_an_evaluation_set_are_excluded_whatever_their_punctuation(copies, tmp_path, run):
    seen = [("他在吃饭。", " 他在吃东西!", "neutral"), ("Me too.", "i hate TEA", "neutral")]
    evaluation_file = xnli(tmp_path / "seen.tsv", seen)
    train = [copies / "cnli" / "train.txt", copies / "decode" / "pairs.dev.jsonl"]
    dev = copies / "xnli" / "dev.tsv"
    assert nli.build(train, [dev], tmp_path / "nli", exclude=[evaluation_file]).excluded == 2
    code, out, err = run(
        "data", "nli", "--train", train[0], "--validation", dev, "--exclude", evaluation_file, "--out", tmp_path / "b"
    )
    assert code == 0 and "5 training" in out
    assert "1 training pairs left out because an excluded corpus contains them" in err


def test_unlabelled_pairs_are_excluded_too(copies, tmp_path, monkeypatch):
    pair = {"sentence1": "他在吃饭", "sentence2": "他在吃东西"}
    test = tmp_path / "corpora" / "cmnli" / "test.json"
    write_jsonl(test, [pair])
    monkeypatch.setenv(corpora.VARIABLE, str(tmp_path / "corpora"))
    data_repo.build(corpora.find("cmnli"), test.parent, tmp_path / "repo")  # its labels are null
    for number, exclude in enumerate(("cmnli", test, f"{tmp_path / 'repo'}:nli")):
        train, dev = copies / "cnli" / "train.txt", copies / "xnli" / "dev.tsv"
        assert nli.build([train], [dev], tmp_path / str(number), exclude=[exclude]).excluded == 1
        with pytest.raises(InputError, match="no row has a label"):
            nli.read(exclude, "test")


def test_a_label_under_another_name_is_an_error_and_rows_of_a_repo_in_other_languages_are_left_out(tmp_path):
    def repo(name, rows):
        Dataset.from_list(rows).to_parquet(tmp_path / name / "train.parquet")
        (tmp_path / name / "README.md").touch()
        return str(tmp_path / name)

    row = {"premise": "甲", "hypothesis": "乙", "target": "neutral"}
    bad = write_jsonl(tmp_path / "bad.jsonl", [row])
    for corpus in (bad, repo("bad", [row])):
        with pytest.raises(InputError, match="bad.*: no row has a label; the columns .* label and gold_label"):
            nli.read(corpus)
    mixed = write_jsonl(tmp_path / "mixed.jsonl", [{"premise": "甲", "hypothesis": "丙", "label": "neutral"}, row])
    short = table(tmp_path / "short.tsv", ("premise", "hypothesis", "label"), ("甲", "丙", "neutral"), ("甲", "乙"))
    for file, place in ((mixed, "mixed.jsonl:2"), (short, "short.tsv:3")):
        with pytest.raises(InputError, match=f"{place}: has premise, hypothesis.*; all rows .* label or gold_label"):
            nli.read(file)
    rows = [{"premise": f"他{name}", "hypothesis": "乙", "label": "neutral", "language": name} for name in ("zh", "bg")]
    assert nli.read(repo("xnli", rows)) == [("他zh", "乙", "neutral")]


def test_pairs_are_found_by_the_name_of_their_corpus(copies, tmp_path, monkeypatch):
    monkeypatch.setenv(corpora.VARIABLE, str(copies))
    assert len(nli.read("cnli")) == 6
    assert nli.read("ocnli", "validation") == [("甲", "乙", "neutral")]
    assert len(nli.read("decode", nli.ALL)) == 5
    with pytest.raises(InputError, match="mutual: .*train split"):
        nli.read("mutual")
    monkeypatch.delenv(corpora.VARIABLE)
    with pytest.raises(InputError, match=corpora.VARIABLE):
        nli.read("ocnli")
