"""The output of `cdconv data build`: how it loads, and its card; and data repos of a user."""

import hashlib
import json
import re
import shutil

import datasets
import pytest
import yaml
from datasets import ClassLabel, Value, load_dataset
from helpers.data_repo import (
    CONFIGS,
    COUNTS,
    FILES,
    IN_REPO,
    NAMES,
    SPLITS,
    TRIGGERS,
    UTTERANCES,
    contents,
    header,
    table_rows,
    write,
)
from helpers.runs import TINY_RECIPE
from huggingface_hub import DatasetCard, DatasetCardData, ModelCard

from contradiction import cdconv
from contradiction.data import build
from contradiction.data.build import Source
from contradiction.data.splits import fingerprint, labelled, languages_of, load_split, of_bot, write_repo
from contradiction.errors import InputError
from contradiction.io.files import read_json
from contradiction.paths import SAMPLE
from paper import baselines
from paper.results import results as add

pytestmark = pytest.mark.usefixtures("no_default_source", "crossed_once")


@pytest.fixture
def cache_beside_repo(repo, tmp_path, monkeypatch):
    """Changes to a folder that holds the data repo `cdconv/` and `cdconv.py` beside it, and returns an empty cache."""
    home = tmp_path / "home"
    shutil.copytree(repo, home / "cdconv")
    shutil.copy(cdconv.__file__, home)
    monkeypatch.chdir(home)
    return str(tmp_path / "cache")


def test_repo_holds_a_card_and_parquet_and_no_code(repo):
    plain = {re.sub(r"-[0-9a-f]{16}\.parquet$", ".parquet", name) for name in contents(repo)}
    assert plain == {
        "README.md",
        build.MARKER,
        *(f"{config}/{split}-00000-of-00001.parquet" for config in IN_REPO for split in SPLITS),
    }


def test_a_rebuilt_repo_never_loads_the_old_rows(tmp_path):
    """`datasets` caches a local folder by its card alone. Here even the sizes of all splits stay the same."""
    rows = SAMPLE.read_text(encoding="utf-8").splitlines(keepends=True)
    source, out = tmp_path / "own.jsonl", tmp_path / "cdconv"
    versions = []
    for mark in "甲乙":
        source.write_text("".join(row.replace('"b2": "', f'"b2": "{mark}') for row in rows), encoding="utf-8")
        build.build(build.find(str(source)), out)
        versions.append(load_dataset(str(out), "4-class", split="test")["b2"][0][0])
    assert versions == ["甲", "乙"]


def test_a_fingerprint_is_a_digest_of_all_values_row_by_row(sample_repo):
    for config in ("4-class", "crossed"):  # plain columns, and lists of objects
        rows = load_dataset(str(sample_repo), config, split="validation")
        expected = hashlib.sha256("".join(repr(tuple(row.values())) for row in rows).encode()).hexdigest()[:16]
        assert fingerprint(rows) == fingerprint(rows.select(range(9)), rows.select(range(9, len(rows)))) == expected


def test_a_missing_file_is_named_without_the_extensions_that_would_be_read(sample_repo, tmp_path):
    repo = shutil.copytree(sample_repo, tmp_path / "data")
    file = next(repo.glob("4-class/test*.parquet"))
    file.unlink()
    message = f"{repo}: config '4-class' cannot be loaded (Unable to find '{file}')"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        load_split(repo, "4-class", "test")


def test_a_bot_that_the_data_does_not_know_is_one_clear_error(sample_repo):
    rows = load_dataset(str(sample_repo), "4-class", split="validation")
    with pytest.raises(InputError, match="data.bot is 'eliza', and the bots of the validation split are eva, plato"):
        of_bot(rows, "eliza")
    with pytest.raises(InputError, match="the validation split has no rows"):
        of_bot(rows.select([]), "eva")
    for without in (rows.cast_column("bot", Value("string")), rows.remove_columns("bot")):
        with pytest.raises(InputError, match="not class labels"):
            of_bot(without, "eva")


@pytest.mark.parametrize("config", CONFIGS)
def test_bare_name_loads_every_row_and_type_beside_the_module(config, lines, cache_beside_repo):
    loaded = load_dataset("cdconv", config, cache_dir=cache_beside_repo)
    task = config.removesuffix("-grouped")
    assert list(loaded) == SPLITS
    ids = []
    for side in loaded.values():
        assert list(side.features.items()) == [
            ("id", Value("int32")),
            *((column, Value("string")) for column in UTTERANCES),
            ("label", ClassLabel(names=NAMES[task])),
            ("trigger", ClassLabel(names=list(TRIGGERS))),
            ("bot", ClassLabel(names=["eva", "plato"])),
            ("batch", Value("int8")),
        ]
        for row in side.to_list():
            line = lines[row["id"] - 1]
            label = {"2-class": line["label"] > 0, "4-class": line["label"], "persona": line.get("persona")}[task]
            assert row["label"] == label
            assert [row[column] for column in UTTERANCES] == [line[column] for column in UTTERANCES]
            assert list(TRIGGERS.values())[row["trigger"]] == line["method"]
            assert ["eva", "plato"][row["bot"]] == line["model"]
            assert FILES[row["batch"] - 1] == line["file"]
            ids.append(row["id"])
    split = cdconv.official_split if task == config else cdconv.grouped_split
    source = [dict(line, id=number, persona=line.get("persona")) for number, line in enumerate(lines, start=1)]
    wanted = [row["id"] for side in split(source).values() for row in side if task != "persona" or row["label"] == 3]
    assert ids == wanted


def test_without_a_name_the_config_is_4_class(cache_beside_repo):
    assert datasets.get_dataset_config_names("cdconv") == sorted(IN_REPO)
    loaded = load_dataset("cdconv", cache_dir=cache_beside_repo)
    assert {side.config_name for side in loaded.values()} == {"4-class"}
    assert loaded["test"].features["label"].names == NAMES["4-class"]


def test_recorded_sizes_are_checked_and_right(repo, tmp_path):
    for info in header(repo)[0]["dataset_info"]:
        config = info["config_name"]
        loaded = load_dataset(str(repo), config, cache_dir=str(tmp_path), verification_mode="all_checks")
        assert {split["name"]: split["num_examples"] for split in info["splits"]} == loaded.num_rows
        assert info["download_size"] == sum(file.stat().st_size for file in (repo / config).iterdir())
        assert info["dataset_size"] == sum(split["num_bytes"] for split in info["splits"])


@pytest.mark.parametrize(
    ("language", "codes"), [("zh-CN", ["zh"]), (["cmn", "yue"], ["zh"]), ([None], ["zh"]), (None, ["zh"])]
)
def test_the_languages_of_a_card_have_no_scripts_and_regions(language, codes, tmp_path):
    (tmp_path / "README.md").write_text(f"---\nlanguage: {json.dumps(language)}\n---\n", encoding="utf-8")
    assert languages_of(tmp_path) == codes


def test_card_metadata_uses_values_that_the_hub_accepts(repo, kind):
    front, body = header(repo)
    data = DatasetCardData(**front)
    assert yaml.safe_load(data.to_yaml()) == front
    assert DatasetCard.load(repo / "README.md").data.to_dict() == front
    assert front["language"] == ["zh", "en"] and languages_of(repo) == ["zh"]  # English is crossed-en alone
    assert front["task_categories"] == ["text-classification"]
    infos = datasets.info.DatasetInfosDict.from_dataset_card_data(data)
    assert infos["4-class"].features["label"] == ClassLabel(names=NAMES["4-class"])
    expected = {
        "release": (["cc-by-nc-4.0", "cc0-1.0"], ["machine-generated", "other"], ["other", "machine-generated"]),
        "sample": (["cc0-1.0"], ["machine-generated"], ["machine-generated"]),
    }[kind]
    assert (front["license"], front["language_creators"], front["annotations_creators"]) == expected
    assert (front["multilinguality"], front["source_datasets"]) == (["multilingual"], ["original"])
    assert "Which model it was is not recorded." in body


def test_the_links_on_the_card_work_outside_this_repository(repo):
    links = re.findall(r"\]\(([^)]+)\)", header(repo)[1])
    headings = re.findall(r"^#+ (.+)$", header(repo)[1], flags=re.MULTILINE)
    places = {f"#{heading.lower().replace(' ', '-')}" for heading in headings}
    assert links
    assert [link for link in links if not link.startswith("https://") and link not in places] == []


def test_the_code_on_the_card_runs(sample_repo, tmp_path, monkeypatch, capsys):
    (tmp_path / "cdconv").symlink_to(sample_repo)
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", header(sample_repo)[1], flags=re.DOTALL)
    exec(code, {})
    row = load_split(sample_repo, "4-class", "test")[0]
    assert capsys.readouterr().out.split()[-1] == NAMES["4-class"][row["label"]]


def test_card_shows_a_conversation_of_every_category(repo, lines):
    body = header(repo)[1]
    shown = re.findall(r"\*\*(.+)\*\*\n\n> user: (.+)<br>\n> bot: (.+)<br>\n> user: (.+)<br>\n> bot: (.+)\n", body)
    assert [name for name, *_ in shown] == NAMES["4-class"]
    real = {tuple(line[column] for column in UTTERANCES): line["label"] for line in lines}
    assert [NAMES["4-class"][real[tuple(texts)]] for _, *texts in shown] == NAMES["4-class"]


def test_card_of_the_release_names_its_source_licence_and_paper(release_repo):
    body = header(release_repo)[1]
    for part in (
        "# CDConv\n\n11,660 two-turn", cdconv.URL, cdconv.SHA256, "CC BY-NC 4.0",
        "@inproceedings{zheng-etal-2022-cdconv", "## Baselines\n", "| TF-IDF, context only |",
    ):  # fmt: skip
        assert part in body
    assert "not CDConv" not in body


def test_card_of_the_release_has_table_3_of_the_paper_and_the_overlap_of_the_splits(release_repo):
    rows = table_rows(header(release_repo)[1])
    for line in """
        label eva plato all
        non-contradiction 3,233 (59.2 %) 4,076 (65.7 %) 7,309 (62.7 %)
        intra-sentence 386 (7.1 %) 144 (2.3 %) 530 (4.5 %)
        role-confusion 129 (2.4 %) 636 (10.3 %) 765 (6.6 %)
        history 1,710 (31.3 %) 1,346 (21.7 %) 3,056 (26.2 %)
        total 5,458 6,202 11,660
        unrelated 46 (2.7 %) 22 (1.6 %) 68 (2.2 %)
        attributes 835 (48.8 %) 622 (46.2 %) 1,457 (47.7 %)
        opinions 379 (22.2 %) 278 (20.7 %) 657 (21.5 %)
        experiences 450 (26.3 %) 424 (31.5 %) 874 (28.6 %)
        total 1,710 1,346 3,056
        short 1,121 7 342 46 1,516 26.1
        inquiring-bot 1,609 164 153 666 2,592 37.9
        inquiring-user 258 13 52 157 480 46.2
        inquiring-user-m 728 75 42 976 1,821 60.0
        paraphrasing 1,808 125 104 608 2,645 31.6
        perturb-synonym 664 43 30 219 956 30.5
        perturb-antonym 504 43 17 186 750 32.8
        perturb-negative 617 60 25 198 900 31.4
        u1 16.42 16.37 16.39
        b1 11.52 12.52 12.05
        u2 11.48 10.79 11.11
        b2 11.20 11.87 11.56
        official 63.7 % 68.2 %
        grouped 0.0 % 0.0 %
    """.strip().splitlines():
        assert line.strip() in rows
    for config, sides in COUNTS.items():
        for split, counts in sides.items():
            labels = ", ".join(
                f"{name} {count:,}" for name, count in zip(NAMES[config.removesuffix("-grouped")], counts, strict=True)
            )
            assert f"{config} {split} {sum(counts):,} {labels}" in rows


def test_the_cards_of_the_sample_and_of_a_file_of_a_user_claim_nothing_of_cdconv(sample_repo, tmp_path):
    path = write(tmp_path / "mine.txt", SAMPLE.read_bytes().splitlines()[::-1])
    source = build.find(str(path))
    assert source == Source(path, "custom")
    own = build.build(source, tmp_path / "out")
    front, body = header(own)
    assert front["license"] == ["unknown", "cc0-1.0"]
    assert (front["language_creators"], front["annotations_creators"]) == (["other", "machine-generated"],) * 2
    assert "`mine.txt`" in body and str(tmp_path) not in body and "## Licence" not in body
    for repo, title in ((own, "**This is not the released CDConv.**"), (sample_repo, "**This is not CDConv.**")):
        body = header(repo)[1]
        assert title in body
        assert not [part for part in ("CC BY-NC", "@inproceedings", cdconv.SHA256, "## Baselines") if part in body]


# A data repo of the user's own: rows without a label, and without the columns that only CDConv has


def without_labels(rows, every=10):
    """The rows, of which each tenth has no label."""
    return rows.map(
        lambda row, index: {"label": row["label"] if index % every else None}, with_indices=True, features=rows.features
    )


@pytest.fixture(scope="module")
def splits(sample_repo):
    return {split: load_split(sample_repo, "4-class", split) for split in SPLITS}


@pytest.fixture
def own(splits, tmp_path):
    """Writes a data repo of config 4-class, with some splits replaced; returns the folder."""

    def build(**changed):
        write_repo(tmp_path / "own", {"4-class": splits | changed}, DatasetCardData(pretty_name="Own chats"), "# Own")
        return tmp_path / "own"

    return build


@pytest.mark.parametrize("command", ["train", "calibrate", "evaluate", "export"])
def test_validation_rows_without_a_label_are_one_clear_error(own, splits, quick_model, tmp_path, run, command):
    data = own(validation=without_labels(splits["validation"]))
    (tmp_path / "tiny.toml").write_text(TINY_RECIPE, encoding="utf-8")
    options = {
        "train": [tmp_path / "tiny.toml", "--out", tmp_path / "model"],
        "calibrate": [quick_model, "--out", tmp_path / "model"],
        "evaluate": [quick_model, "--split", "validation"],
        "export": [shutil.copytree(quick_model, tmp_path / "copy"), "--backend", "onnx"],
    }
    code, _, err = run(command, *options[command], "--data", data)
    assert code == 2
    last = err.strip().splitlines()[-1]
    assert "rows of the validation split of '4-class' have no label" in last, err
    assert not (tmp_path / "model").exists()


def test_baselines_are_fitted_to_the_labelled_training_rows(own, splits, tmp_path, run):
    scores = {}
    for name, train in {"null": without_labels(splits["train"]), "dropped": None}.items():
        train = train or labelled(without_labels(splits["train"]))
        options = ["--data", own(train=train), "--config", "4-class", "--out", tmp_path / name]
        code, _, err = run(*options, script=baselines.run)
        assert code == 0, err
        scores[name] = (tmp_path / name / "metrics.csv").read_text(encoding="utf-8")
    assert scores["null"] == scores["dropped"]


def test_a_split_without_labels_is_one_clear_error(own, splits, quick_model, run):
    data = own(**{split: rows.remove_columns("label") for split, rows in splits.items()})
    code, _, err = run("evaluate", quick_model, "--data", data)
    assert code == 2 and "has no column 'label'" in err.splitlines()[-1]
    data = own(train=without_labels(splits["train"], 1))
    code, _, err = run("--data", data, "--config", "4-class", script=baselines.run)
    assert code == 2 and "no row of the training split" in err.splitlines()[-1]


def test_a_report_counts_rows_without_a_label_as_not_judged(own, splits, tmp_path, run):
    code, _, err = run("probe", "report", own(train=without_labels(splits["train"])), "--out", tmp_path / "report")
    assert code == 0, err
    bots = read_json(tmp_path / "report" / "report.json")["bots"]
    rows = splits["train"]
    assert sum(bot["not_judged"] for bot in bots) == len(rows) - len(labelled(without_labels(rows)))


def test_a_model_card_reports_no_scores_on_other_data_as_those_of_cdconv(own, quick_model, tmp_path, run):
    model = shutil.copytree(quick_model, tmp_path / "model")
    code, _, err = run("evaluate", model, "--data", own(), "--json", tmp_path / "own.json")
    assert code == 0, err
    assert read_json(tmp_path / "own.json")["data_name"] == "Own chats"
    assert run("card", model, "--results", tmp_path)[0] == 0
    card = ModelCard.load(model / "README.md")
    assert card.data.eval_results is None
    assert "4-class, test" in card.text


def test_the_results_of_cdconv_are_not_replaced_by_those_on_other_rows(
    own, splits, sample_repo, quick_model, tmp_path, run
):
    results = tmp_path / "results"
    for name, data in {"first": sample_repo, "second": own(test=splits["test"].select(range(60)))}.items():
        run("evaluate", quick_model, "--data", data, "--json", tmp_path / f"{name}.json")
    assert run(tmp_path / "first.json", "--folder", results, script=add)[0] == 0
    before = contents(results)
    code, _, err = run(tmp_path / "second.json", "--folder", results, script=add)
    assert code == 2 and "on other rows" in err and "--folder" in err
    assert contents(results) == before
    shutil.copy(tmp_path / "second.json", results)
    code, _, err = run("--folder", results, "--out", tmp_path / "page.md", script=add)
    assert code == 2 and "second.json" in err and "on other rows" in err
