"""Training claims for fact checking: each change refutes its claim, and an endpoint writes more of them."""

import json

import numpy as np
import pytest
from helpers.chat_server import KEY, ChatServer

from contradiction.data import made_claims
from contradiction.data.corpora import dialfact, registry
from contradiction.data.corpora.corpus import read_split
from contradiction.errors import InputError
from contradiction.io.endpoint import Endpoint
from contradiction.io.files import LockedError, locked


def claim(name, reply, passages, label="SUPPORTS"):
    return {
        "context_id": name, "id": f"{name}--0", "context": ["hi", "hello"], "response": reply,
        "response_label": label, "type_label": "factual", "evidence_list": [["T", "u", text, "0"] for text in passages],
    }  # fmt: skip


CLAIMS = [
    claim("1", "The tower was built in 1,889 by Gustave Eiffel.", ["In 1,889 it was built by Gustave Eiffel."]),
    claim("2", "I think it isn't open.", ["They say that Jane Austen has kept it closed."]),
    claim("3", "It is blue.", ["red"], label="REFUTES"),
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "claims.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in CLAIMS), encoding="utf-8")
    return path


def test_only_supported_claims_are_changed_and_each_change_refutes(source):
    rows = made_claims.read_supported(source)
    assert [row.source for row in rows] == ["1", "2"]
    claims = {claim.id: claim for claim in made_claims.made(rows)}
    assert claims["1--0-negation"].reply == "The tower was not built in 1,889 by Gustave Eiffel."
    assert claims["2--0-negation"].reply == "I think it is open."
    changed = claims["1--0-number"].reply
    assert changed.startswith("The tower was built in ") and "1,889" not in changed and changed.endswith("Eiffel.")
    assert claims["1--0-entity"].reply == "The tower was built in 1,889 by Jane Austen."
    assert "2--0-number" not in claims and "2--0-entity" not in claims  # it shares nothing with the evidence
    assert {claim.label for claim in claims.values() if claim.extra["made"] in made_claims.CHANGES} == {"refutes"}
    other = claims["1--0-passage"]
    assert (other.label, other.extra["passages"]) == ("not enough information", CLAIMS[1]["evidence_list"][0][2:3])


def test_the_same_seed_makes_the_same_claims():
    rows = [made_claims.Row(str(n), "supports", reply=f"it was {n} in 1950", source=str(n),
                            extra={"titles": ["t"], "passages": ["1950"]}) for n in range(9)]  # fmt: skip
    one, again, other = ([claim.reply for claim in made_claims.made(rows, seed)] for seed in (1, 1, 2))
    assert one == again != other
    assert all(made_claims.other_number(row, rows, np.random.default_rng(n)) != row.reply for n, row in enumerate(rows))


def test_the_command_writes_the_training_split_of_dialfact(run, source, tmp_path):
    code, out, err = run("corpora", "augment", source, "--out", tmp_path / "dialfact" / "augmented.jsonl")
    assert code == 0, err
    assert "negation" in out
    rows = read_split(registry.find("dialfact"), tmp_path / "dialfact", "nli", "train").rows
    labels = {row.id: (row.label, row.premise) for row in rows}
    assert labels["1--0-negation"] == ("contradiction", CLAIMS[0]["evidence_list"][0][2])
    assert labels["1--0-passage"][0] == "neutral" and labels["1--0"][0] == "entailment"
    code, _, err = run("corpora", "augment", source, "--out", tmp_path / "x.jsonl", "--model", "m")
    assert code == 2 and "go together" in err


def test_wizard_of_wikipedia_chats_are_read(tmp_path):
    turns = [
        {"speaker": "1_Apprentice", "text": "tell me of it", "checked_sentence": {}},
        {"speaker": "0_Wizard", "text": "It is old.", "checked_sentence": {"partner_Tower_0": "The tower is old."}},
        {"speaker": "0_Wizard", "text": "I like it.", "checked_sentence": {"no_passages_used": "no_passages_used"}},
    ]
    path = tmp_path / "train.json"
    path.write_text(json.dumps([{"chosen_topic": "Tower", "dialog": turns}]), encoding="utf-8")
    (row,) = made_claims.read_supported(path)
    assert (row.reply, row.extra["passages"], row.label) == ("It is old.", ["The tower is old."], dialfact.SUPPORTS)
    path.write_text(json.dumps([{"dialog": [{"text": "x"}]}]), encoding="utf-8")
    with pytest.raises(InputError, match=r"train\.json:row 1: not a chat"):
        made_claims.read_supported(path)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("claims.jsonl", CLAIMS[0] | {"evidence_list": [["no passage"]]}),
        ("train.json", [{"dialog": [{"speaker": "0_Wizard", "text": "x", "checked_sentence": "no titles"}]}]),
        ("train.json", [{"dialog": [{"speaker": "1_Apprentice", "text": "x"}] + [
            {"speaker": "0_Wizard", "text": None, "checked_sentence": {"title": "fact"}}]}]),
    ],
)  # fmt: skip
def test_a_damaged_source_prints_one_line(run, tmp_path, name, line):
    path = tmp_path / name
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    code, _, err = run("corpora", "augment", path, "--out", tmp_path / "augmented.jsonl")
    assert code == 2 and f"{path}: the data after row 0 is not in the format of" in err
    assert "Traceback" not in err and not (tmp_path / "augmented.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "refuted"),
    [
        ("You can't swim there.", "You can swim there."),
        ("You can’t swim there.", "You can swim there."),
        ("It isn’t open.", "It is open."),
        ("We can swim.", "We can not swim."),
        ("It opened in May and was full.", "It opened in May and was not full."),
    ],
)
def test_a_negation_is_added_or_removed_grammatically(text, refuted):
    assert made_claims.negated(made_claims.Row("1", "supports", reply=text), [], np.random.default_rng(0)) == refuted


def test_a_language_model_writes_a_claim_of_each_kind(run, source, tmp_path, monkeypatch):
    out = tmp_path / "dialfact" / "augmented.jsonl"  # the folder is made
    with ChatServer(
        lambda body: " A reply. ", lambda number, body: "401" if body["model"] == "other" else None
    ) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        code, _, err = run("corpora", "augment", source, "--out", out, "--endpoint", server.url, "--model", "m")
        assert code == 0, err
        assert set(server.keys) == {KEY}
        assert "Gustave Eiffel" in server.requests[0]["messages"][0]["content"]
        code, _, err = run("corpora", "augment", source, "--out", out, "--endpoint", server.url, "--model", "other")
        assert code == 2 and f"{server.url}/chat/completions: HTTP 401" in err
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    written = [line for line in lines if line["data_type"].startswith("generated")]
    assert [line["response"] for line in written] == ["A reply."] * 6
    assert [line["response_label"] for line in written[:3]] == ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"]
    code, _, err = run("corpora", "augment", source, "--out", out, "--endpoint", "file:///etc", "--model", "m")
    assert code == 2 and "http://" in err


def test_a_refusal_is_no_claim_and_is_asked_again(source, tmp_path):
    refusal = b'{"choices": [{"message": {"content": null, "refusal": "No."}}]}'
    rows = made_claims.read_supported(source)[:1]
    with ChatServer(lambda body: "A reply.", lambda number, body: refusal if number == 1 else None) as server:
        for expected in (2, 3):
            with Endpoint("m", url=server.url) as endpoint:
                assert len(list(made_claims.generated(rows, endpoint, tmp_path / "answers"))) == expected
    assert len(server.requests) == 4


def test_saved_answers_with_any_line_separator_are_read_and_a_wrong_line_is_named(tmp_path):
    path = tmp_path / "answers"
    replies = ["one\u2028two", "one\u2029two", "one\x85two", "one\ntwo"]
    lines = [json.dumps(["m", str(number), reply], ensure_ascii=False) for number, reply in enumerate(replies)]
    path.write_text("\n".join([*lines, '["m", "unfinish']), encoding="utf-8")
    known = [["m", str(number), reply] for number, reply in enumerate(replies)]
    assert list(made_claims._answers(path).keep()) == known
    assert path.read_text(encoding="utf-8") == "".join(f"{line}\n" for line in lines)
    path.write_text("\n".join([*lines, '["m", "unfinish']), encoding="utf-8")
    damaged = path.read_text(encoding="utf-8") + 'of a reply"]\n'
    path.write_text(damaged, encoding="utf-8")
    with pytest.raises(InputError, match="answers:5: not a JSON list"):
        list(made_claims._answers(path).keep())
    assert path.read_text(encoding="utf-8") == damaged


def test_two_processes_do_not_write_one_file_of_answers(source, tmp_path):
    answers = tmp_path / "answers"
    claims = made_claims.generated(
        made_claims.read_supported(source), Endpoint("m", url="http://localhost:1/v1"), answers
    )
    with locked(answers), pytest.raises(LockedError):
        next(claims)


def test_claims_written_before_a_failure_are_not_requested_again(run, source, tmp_path, monkeypatch):
    out, failing = tmp_path / "augmented.jsonl", iter([True])
    with ChatServer(
        lambda body: " A reply. ", lambda number, body: "401" if number >= 4 and next(failing, False) else None
    ) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        command = ("corpora", "augment", source, "--out", out, "--endpoint", server.url, "--model", "m")
        code, _, _ = run(*command)
        failed_after = len(server.requests)
        assert code == 2 and not out.exists()
        code, _, err = run("corpora", "augment", source, "--out", out)
        assert code == 0, err
        out.unlink()
        with (tmp_path / "augmented.jsonl.answers").open("a", encoding="utf-8") as stream:
            stream.write('["m", "a line that a killed proc')
        code, _, err = run(*command)
        assert code == 0, err
        assert len(server.requests) == 6 + 1  # six claims, and the request that failed
        assert 1 < failed_after < 6
    assert out.read_text(encoding="utf-8").count("A reply.") == 6
    assert [file.name for file in tmp_path.glob("augmented*")] == ["augmented.jsonl"]
