"""A cascade is published like any other model: with its card, without private files, and it loads by its Hub id."""

import re

import pytest
from helpers.chat_server import KEY, ChatServer
from helpers.decoders import base_model, detector_folder, without_base
from helpers.hub_client import push, python
from helpers.hub_server import Commit, Repo
from helpers.scripted_judge import scripted
from huggingface_hub import ModelCard

from contradiction import publishing
from contradiction.data.splits import load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.io.files import RECORD, read_json, write_json

RUN = """
import contextlib, io, json
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    exec(CODE, {})
print(json.dumps(printed.getvalue().splitlines()))"""


def code_of(card):
    [block] = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    return block


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def causal(tmp_path):
    """A causal detector whose base is a local folder, with a record; not for commercial use."""
    (tmp_path / "causal").mkdir()
    base = base_model(tmp_path / "base")
    detector_folder(tmp_path / "causal", base)
    recipe = {"data": {"config": "4-class"}, "model": {"method": "decoder", "backbone": "somebody/base"}}
    write_json(
        tmp_path / "causal" / RECORD,
        {"request": {"recipe": recipe, "data_name": "CDConv"}, "languages": ["zh", "en"], "parameters": 12_300_000},
    )
    return without_base(tmp_path / "causal", str(base))


def test_a_cascade_of_two_local_models_loads_by_its_id(run, hub, quick_model, causal, sample_repo, tmp_path):
    out = tmp_path / "both"
    code, _, err = run("cascade", quick_model, causal, "--data", sample_repo, "--share", "0.3", "--out", out)
    assert code == 0, err
    card = ModelCard.load(out / "README.md")
    measured, marker = read_json(out / RECORD)["cascade"], read_json(out / "cascade.json")
    assert (card.data.license, card.data.language, card.data.base_model) == ("cc-by-nc-4.0", "zh", "somebody/base")
    bounds, share = f"from {marker['low']:.3f} to {marker['high']:.3f}", f"{100 * measured['share']:.1f}"
    for said in (
        "Not for commercial use", "`quick`, an encoder", "Licence: `cc0-1.0`", "`causal`, a language model of 12.3 M",
        bounds, f"{share} % of the replies", f"\n| {share} | ", "`pipeline()` of `transformers` cannot",
        f"on {measured['rows']} rows\nof the validation split of CDConv sample, `4-class`", '".[decoder]"',
        "stricter one of its parts.",
    ):  # fmt: skip
        assert said in card.text, said
    assert card.text.count("CC BY-NC 4.0") == 1, "once beside the front matter, and not of each part again"
    assert "tokens / 1,000" not in card.text

    answer = push(hub, tmp_path, "model", out)
    assert answer.returncode == 0, answer.stderr
    pushed = hub.repos["model", "user/name"].files
    assert not [name for name, content in pushed.items() if str(tmp_path).encode() in content]
    hub.repos["model", "somebody/base"] = Repo(False, [Commit("base", files_of(tmp_path / "base"))])
    text = pushed["README.md"].decode()
    assert 'from_pretrained("user/name")' in text
    [verdict] = python(hub, tmp_path, RUN.replace("CODE", repr(code_of(text))))
    assert f"\n# {verdict}\n" in text and verdict

    without_base(out / "judge", str(tmp_path / "base"), None)
    with pytest.raises(InputError, match=r"judge: others do not have its base /.*/base; train it with its Hub id"):
        publishing.model(out, "user/name")
    write_json(out / RECORD, {})
    code, _, err = run("card", out)
    assert code == 2 and "run.json: has no 'cascade'; `cdconv cascade` writes it" in err


def test_a_cascade_with_an_endpoint_is_pushed_without_address_key_and_answers(
    run, hub, quick_model, sample_repo, sample_rows, monkeypatch, tmp_path
):
    out = tmp_path / "both"
    judge = {"model": "Qwen/Qwen3-32B", "prices": {"input": 1.0, "output": 2.0}, "extra": {"reasoning_effort": "low"}}
    (tmp_path / "judge").mkdir()
    write_json(tmp_path / "judge" / "judge.json", judge)
    with ChatServer(scripted(sample_rows, right=0.9)) as server:
        for variable, value in server.environment.items():
            monkeypatch.setenv(variable, value)
        options = ("--data", sample_repo, "--share", "1", "--out", out, "--yes")
        code, _, err = run("cascade", quick_model, tmp_path / "judge", *options)
        assert code == 0, err
        asked = len(server.requests)
        server.answer = lambda body: '{"label": "role-confusion"}'
        assert push(hub, tmp_path, "model", out).returncode == 0
        pushed = hub.repos["model", "user/name"].files
        assert (out / "judge" / "answers.jsonl").is_file() and "judge/answers.jsonl" not in pushed
        for secret in (server.url, KEY, str(tmp_path)):
            assert not [name for name, content in pushed.items() if secret.encode() in content]
        text = pushed["README.md"].decode()
        [label, *_] = python(hub, tmp_path, RUN.replace("CODE", repr(code_of(text))))[0].split()
        assert label == "role-confusion" and len(server.requests) == asked + 1
    assert "license: cc0-1.0" in text and "`Qwen/Qwen3-32B`" in text and "`OPENAI_BASE_URL`" in text
    assert "cost / 1,000" in text and "\n# role" not in code_of(text)


def test_a_cascade_whose_detector_has_an_endpoint_asks_first_and_says_where_chats_go(
    run, quick_model, judge, sample_repo, sample_rows, tmp_path
):
    with ChatServer(scripted(sample_rows)) as server:
        folder = judge(server, name="remote", model="Qwen/Qwen3-32B")
        inner, outer = tmp_path / "inner", tmp_path / "outer"
        for first, second, out in ((folder, quick_model, inner), (inner, quick_model, outer)):
            code, shown, err = run("cascade", first, second, "--data", sample_repo, "--out", out, "--yes")
            assert code == 0 and "What the judge was asked for" in shown, err
        count = len(load_split(sample_repo, "4-class", "validation"))
        assert len(server.requests) == count, "only about the rows, and once"
        assert ContradictionDetector.from_pretrained(outer).classifier.usage() is not None
    text = (outer / "README.md").read_text(encoding="utf-8")
    assert "`inner`, a cascade. Its detector is the language model `Qwen/Qwen3-32B`, which is not in this repo." in text
    assert "chats that this language model judges are sent there" in text and "1,000 replies" not in text


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": "/data/models/qwen"}, "model"),
        ({"model": "~/qwen"}, "model"),
        ({"extra": {"api_key": "abc"}}, "api_key"),
        ({"extra": {"apiKey": "abc"}}, "apiKey"),
        ({"extra": {"user": "sk-abc"}}, "user"),
        ({"extra": {"fallbacks": ["https://inside.example/v1"]}}, "fallbacks"),
        ({"extra": {"router": {"host": "10.0.0.7"}}}, "host"),
        (
            {"model": "qwen3:32b", "extra": {"max_completion_tokens": 9, "service": {"tier": "flex"}}},
            None,
        ),
    ],
)
def test_a_judge_with_a_key_an_address_or_a_folder_is_not_published(options, named, tmp_path):
    write_json(tmp_path / "judge.json", {"model": "tiny", **options})
    (tmp_path / "README.md").write_text("---\nlicense: other\n---\n\n# judge\n", encoding="utf-8")
    if named is None:
        assert set(publishing.model(tmp_path, "user/name").files) == {"README.md", "judge.json"}
        return
    with pytest.raises(InputError, match=rf"judge\.json: '{named}' looks like a key, an address or a folder") as error:
        publishing.model(tmp_path, "user/name")
    assert "abc" not in str(error.value)
