"""The content of a repo on the Hub, and the checks before an upload."""

import re
import shutil

import pytest
from helpers.pages import anchors, by_path, text_of

from contradiction import paths, publishing
from contradiction.errors import InputError
from contradiction.io.files import write_json


def test_a_card_links_the_data_of_the_authors_or_that_which_the_user_names(quick_model):
    for options, linked in (({}, "thu-coai/cdconv"), ({"dataset": "you/cdconv"}, "you/cdconv")):
        upload = publishing.model(paths.SHIPPED, "you/name", **options)
        assert upload.card.data.datasets == [linked]
        assert {eval_result.dataset_type for eval_result in upload.card.data.eval_results} == {linked}
        assert f"- {linked}\n".encode() in upload.files["README.md"]
    assert publishing.model(quick_model, "you/name").card.data.datasets is None  # trained on the sample


def test_a_push_changes_only_names_in_a_card_and_nothing_in_the_folder(quick_model):
    own = (quick_model / "README.md").read_bytes()
    sent = publishing.model(quick_model, "you/name")
    assert (quick_model / "README.md").read_bytes() == own
    assert sent.files["README.md"].decode().replace("you/name", quick_model.name) == own.decode()


def test_the_code_on_a_pushed_card_loads_from_its_repo(sample_repo):
    for upload, call, name in (
        (publishing.dataset(sample_repo, "you/data", any_data=True), "load_dataset", "you/data"),
        (publishing.metric("you/evaluate_metric"), "evaluate.load", "you/evaluate_metric"),
        (publishing.space("you/page"), "Client", "you/page"),
    ):
        blocks = re.findall(r"```python\n(.*?)```", upload.files["README.md"].decode(), flags=re.DOTALL)
        assert set(re.findall(rf'\b{re.escape(call)}\("([^"]+)"', "".join(blocks))) == {name}


def test_a_pushed_card_says_below_its_title_where_the_code_is():
    url = "https://example.org/you/cdconv"
    for upload in (publishing.metric("you/evaluate_metric"), publishing.model(paths.SHIPPED, "you/name")):
        publishing.add_code_url(upload.card, url)
        text = upload.files["README.md"].decode()
        _, front, body = text.split("---\n", 2)
        title, sentence = body.strip().split("\n\n")[:2]
        assert title.startswith("# ") and f"<{url}>" in sentence and f"`pip install git+{url}`" in sentence
        assert body.count(url) == 2 and url not in front
    for other in ("git@example.org:you/cdconv", "http://example.org/a", "https://example.org/a b"):
        with pytest.raises(InputError, match="https://"):
            publishing.add_code_url(upload.card, other)


CARDS = [paths.METRIC / "README.md", paths.SPACE / "README.md", *sorted(paths.SHIPPED.parent.glob("*/README.md"))]


@pytest.mark.parametrize("card", **by_path(CARDS))
def test_the_links_on_a_card_work_on_the_hub(card):
    links = re.findall(r"\]\(([^)]+)\)", text_of(card))
    places = {f"#{anchor}" for anchor in anchors(card)}
    assert [link for link in links if not link.startswith("https://") and link not in places] == []


@pytest.mark.parametrize("card", **by_path([path for path in CARDS if path.parent != paths.METRIC]))
def test_a_card_says_before_its_first_section_that_commercial_use_is_not_allowed(card):
    assert re.search(r"\bcommercial use", text_of(card).split("\n## ")[0])


# Checks before an upload


def test_a_model_folder_without_a_part_or_a_valid_card_is_rejected(quick_model, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    for card in ("# No metadata\n", "---\na: [\n---\n", "---\n- a list\n---\n"):
        (folder / "README.md").write_text(card, encoding="utf-8")
        with pytest.raises(InputError, match=r"README\.md: not a valid card"):
            publishing.model(folder, "you/name")
    for name in ("README.md", "model.safetensors", "tokenizer_config.json", "config.json"):
        (folder / name).unlink()
        with pytest.raises(InputError, match=name.replace("model.safetensors", "no weights")):
            publishing.model(folder, "you/name")


def test_a_hierarchical_model_needs_every_stage_and_is_pushed_completely(quick_model, tmp_path):
    folder = tmp_path / "stages"
    for stage in ("first", "second"):
        shutil.copytree(quick_model, folder / stage)
    write_json(folder / "stages.json", {"stages": ["first", "second"]})
    shutil.copy(quick_model / "README.md", folder)
    assert {"README.md", "stages.json", "second/model.safetensors"} < set(publishing.model(folder, "you/name").files)
    (folder / "second" / "config.json").unlink()
    with pytest.raises(InputError, match=r"second: no config\.json"):
        publishing.model(folder, "you/name")


def test_a_malformed_id_and_the_sample_as_cdconv_are_rejected(sample_repo):
    for repo_id in ("name", "user/", "a/b/c", "user/na me", "用户/name"):
        with pytest.raises(InputError, match="Hub id"):
            publishing.space(repo_id)
    with pytest.raises(InputError, match="its card calls it 'CDConv sample'.*--any-data"):
        publishing.dataset(sample_repo, "you/data")


def test_a_data_repo_with_code_or_without_parquet_is_rejected(sample_repo, tmp_path):
    folder = shutil.copytree(sample_repo, tmp_path / "cdconv")
    (folder / "cdconv.py").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"cdconv\.py: a data repo holds no code"):
        publishing.dataset(folder, "you/data", any_data=True)
    (folder / "cdconv.py").unlink()
    shutil.rmtree(folder / "persona")
    with pytest.raises(InputError, match="no Parquet at persona/train-.*'persona'"):
        publishing.dataset(folder, "you/data", any_data=True)
    (folder / "README.md").write_text("---\npretty_name: CDConv\n---\n", encoding="utf-8")
    with pytest.raises(InputError, match="names no configs"):
        publishing.dataset(folder, "you/data")


def test_caches_and_unfinished_files_are_never_uploaded(quick_model, tmp_path):
    folder = shutil.copytree(quick_model, tmp_path / "model")
    for name in (".cache/a", "__pycache__/a.pyc", "b.partial", ".b.7.partial/c", "sub/.hidden", "x.lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("", encoding="utf-8")
    assert publishing.model(folder, "you/name").files.keys() == publishing.model(quick_model, "you/name").files.keys()
