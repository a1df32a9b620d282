"""Human labels: who labels what, how far people agree, what is exported, and what survives a kill."""

import signal
import threading
import time

import httpx
import pytest
from helpers.chats import chat, line, objects, write_jsonl
from helpers.processes import free_port, is_answered, start_cdconv, wait_for
from helpers.runs import full_disk
from starlette.testclient import TestClient

from contradiction.chats.names import USUAL
from contradiction.data.labelled import read
from contradiction.errors import InputError
from contradiction.serving.review import application, chats_of, spot_checks_of
from contradiction.serving.review_store import LabelStore, StoreError

NONE, INTRA, ROLE, HISTORY = "non-contradiction", "intra-sentence", "role-confusion", "history"


def chats(count):
    return [(f"c{n}", chat("你养猫吗？", f"养了{n}只", "它叫什么？", f"我没养过猫{n}")) for n in range(count)]


@pytest.fixture
def store(tmp_path):
    return LabelStore(tmp_path / "review.jsonl")


def test_two_people_label_every_chat_and_a_third_resolves_differences(store):
    assert store.add(chats(4)) == 4 and store.add(chats(5)) == 1, "only new chats are added"
    anna, ben, carla = (store.join(name) for name in ("Anna", "  Ben ", "Carla"))
    assert (anna, ben, carla, store.join("Anna")) == (1, 2, 3, 1)
    assert store.next(carla) is None
    labels = {anna: [NONE, HISTORY, HISTORY, NONE, "unclear"], ben: [NONE, HISTORY, INTRA, HISTORY, "unclear"]}
    for person, own in labels.items():
        for label in own:
            item = store.next(person)
            store.put(person, item.id, label, 1 if label == HISTORY else None)
        assert store.next(person) is None and store.progress(person) == (5, 5)
    assert store.progress(carla) == (0, 2)
    first = store.next(carla)
    assert first.name == "c2" and store.next(carla, after=first.id).name == "c3"
    store.put(carla, first.id, ROLE)
    report = dict(store.report().rows)
    assert [report[key] for key in ("chats", "labelled by both annotators", "waiting for a third")] == ["5", "5", "1"]
    assert report["with a final label"].startswith("4, of them 1 unclear")
    assert report["agreement, %"].startswith("60.0 (")
    assert report["Cohen's kappa"] == "0.44; contradiction or not: 0.69"  # (0.6 - 0.28) / 0.72, (0.8 - 0.36) / 0.64
    exported = store.export()
    assert [(one["id"], one["label"], one.get("evidence")) for one in exported] == [
        ("c0", NONE, None), ("c1", HISTORY, 1), ("c2", ROLE, None),
    ]  # fmt: skip
    assert exported[2]["annotators"] == {"Anna": HISTORY, "Ben": INTRA, "Carla": ROLE}
    assert exported[0]["messages"] == chats(1)[0][1]


def test_one_person_can_label_alone(tmp_path):
    store = LabelStore(tmp_path / "review.jsonl", annotators=1)
    store.add(chats(3))
    anna = store.join("Anna")
    with pytest.raises(InputError, match="Anna labels alone, because this review was started with --annotators 1"):
        store.join("Ben")
    for label in (HISTORY, "unclear"):
        store.put(anna, store.next(anna).id, label, 1 if label == HISTORY else None)
    report = dict(store.report().rows)
    assert report["with a final label"].startswith("2, of them 1 unclear") and "agreement, %" not in report
    assert [(one["label"], one["annotators"]) for one in store.export()] == [(HISTORY, {"Anna": HISTORY})]
    assert LabelStore(store.path).export() == [], "two people are still the default"
    page = TestClient(application(store), base_url="http://localhost").get("/").text
    assert '"annotators": 1' in page


def test_the_command_exports_the_labels_of_one_person_or_says_why_there_are_none(run, chat_file, tmp_path):
    store, out_file = LabelStore(tmp_path / "chats.jsonl.review.jsonl"), tmp_path / "out.jsonl"
    store.add(chats(2))
    store.put(store.join("Anna"), store.next(1).id, NONE)
    code, _, err = run("review", tmp_path / "absent.jsonl")
    assert code == 2 and "no such file of chats" in err
    code, out, err = run("review", chat_file, "--export", out_file)
    assert (code, out_file.exists()) == (2, False)
    assert "labels by Anna" in out
    assert "nothing to export yet, because no chat has a final label" in err
    code, out, _ = run("review", chat_file, "--annotators", "1", "--export", out_file)
    assert code == 0 and len(out_file.read_text(encoding="utf-8").splitlines()) == 1
    assert "not available, because one person labels alone" in out and "both" not in out


def test_a_chat_that_people_see_only_in_part_says_so_and_is_left_out_of_the_agreement(store):
    picture = {"role": "user", "content": [{"type": "text", "text": "看"}, {"type": "image_url", "image_url": {}}]}
    store.add([*chats(2), ("p", [picture, {"role": "assistant", "content": "好看"}])])
    for person, labels in ((1, [NONE, NONE, NONE]), (2, [NONE, NONE, INTRA])):
        store.join(str(person))
        for label in labels:
            item = store.next(person)
            assert item.unread == (item.name == "p")
            store.put(person, item.id, label)
    report = dict(store.report().rows)
    assert (report["chats"], report["labelled by both annotators"], report["waiting for a third"]) == ("3", "2", "1")
    assert report["shown only in part, and left out of the agreement"] == "1"
    assert report["agreement, %"].startswith("100.0") and report["Cohen's kappa"].startswith("undefined")
    page = TestClient(application(store), base_url="http://localhost")
    assert page.get("/api/item?person=1&id=3").json()["item"]["unread"] is True


def test_what_the_bot_was_told_is_shown_and_exported_and_is_no_evidence(store, tmp_path):
    persona = {"role": "system", "content": "你叫小林，养了一只猫。"}
    store.add([("p", [persona, *chats(1)[0][1]])])
    item = store.next(store.join("Anna"))
    assert item.messages[0] == persona
    with pytest.raises(InputError, match=r"evidence 0 .*one of \[2\]"):
        store.put(1, item.id, HISTORY, 0)
    store.put(store.join("Ben"), item.id, HISTORY, 2)
    store.put(1, item.id, HISTORY)
    file = tmp_path / "labels.jsonl"
    write_jsonl(file, store.export())
    [labelled] = read(file)
    assert (labelled.messages[0], labelled.evidence, len(labelled.turns)) == (persona, 2, 2)


def test_what_the_bot_was_told_beside_the_messages_is_shown_too(tmp_path):
    [(_, messages)] = chats(1)
    given = "你叫小林", [{"type": "text", "text": "你叫小林"}], {"name": "小林"}, ""
    rows = [{"messages": messages, "system": system, "label": HISTORY} for system in given]
    file = write_jsonl(tmp_path / "chats.jsonl", rows)
    verdicts = [{"line": n, "probability": 0.1, "contradiction": False} for n in range(1, 5)]
    write_jsonl(tmp_path / "verdicts.jsonl", verdicts)
    told = [{"role": "system", "content": text} for text in ("你叫小林", "你叫小林", "{'name': '小林'}")]
    expected = [*([each, *messages] for each in told), messages]
    assert [chat for _, chat in chats_of(file, print, None, USUAL, None, 0)] == expected
    assert [chat for _, chat in chats_of(file, print, None, USUAL, tmp_path / "verdicts.jsonl", 4)] == expected
    assert [chat for _, chat, _ in spot_checks_of(file, USUAL)] == expected


def test_spot_checks_are_mixed_in_and_scored_but_not_exported(store):
    checks = [(f"s{n}", chat("你好", f"嗯{n}"), INTRA) for n in range(2)]
    assert store.add(chats(6), checks) == 8
    person = store.join("Anna")
    order = []
    for label in [NONE] * 2 + [INTRA] + [NONE] * 5:
        item = store.next(person)
        assert item.id == len(order) + 1, "the number reveals nothing"
        order.append(item.name)
        store.put(person, item.id, label)
    assert order == ["c0", "c1", "s0", "c2", "c3", "c4", "s1", "c5"]
    report = dict(store.report().rows)
    assert (report["labels by Anna"], report["chats"]) == ("8; spot checks right: 1 of 2", "6")
    other = store.join("Ben")
    while item := store.next(other):
        store.put(other, item.id, NONE)
    assert {one["id"] for one in store.export()} == {f"c{n}" for n in range(6)}


def test_a_label_can_be_changed_and_wrong_labels_evidence_people_and_files_are_rejected(store, tmp_path):
    store.add(chats(1))
    store.join("Anna")
    for arguments, message in (
        ((1, 1, "wrong"), "label 'wrong'"),
        ((1, 1, HISTORY, 0), "evidence 0"),
        ((1, 1, NONE, 1), "evidence 1"),
        ((2, 1, NONE), "person 2"),
        ((1, 9, NONE), "chat 9"),
    ):
        with pytest.raises(InputError, match=message):
            store.put(*arguments)
    for label in (NONE, INTRA):  # a label can be changed
        store.put(1, 1, label)
    assert store.progress(1) == (1, 1) and dict(store.report().rows)["labels by Anna"] == "1"
    with pytest.raises(InputError, match="1 to 40 characters"):
        store.join(" ")
    other = tmp_path / "other.jsonl"
    for wrong in ('{"kind": "chat"}', '{"messages": []}', "[]"):
        other.write_text(f"{wrong}\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"other\.jsonl:1: not a line of labels"):
            LabelStore(other)
    other.write_text('[{"messages": []}]', encoding="utf-8")  # a file without line breaks is not a line cut short
    with pytest.raises(InputError, match=r"other\.jsonl: not a line of labels"):
        LabelStore(other)
    same = [(name, store.item(1).messages) for name in ("first", "second")]
    assert LabelStore(tmp_path / "same.jsonl").add(same) == 1


@pytest.mark.parametrize(
    ("kind", "key", "value", "message"),
    [
        ("chat", "name", 5, "name is a number; not a line of labels"),
        ("chat", "messages", {}, "messages is an object; not a line"),
        ("chat", "messages", [], "messages is empty"),
        ("chat", "messages", ["你好"], "messages[0] is text; it must be"),
        ("chat", "messages", [{"role": "user", "content": "你好"}], "the chat holds no message by the assistant"),
        (
            "chat",
            "messages",
            chat("你好", ["你好呀"]),
            "the content of {'content': ['你好呀'], 'role'",
        ),
        ("chat", "truth", "histories", "truth 'histories'; allowed are "),
        ("chat", "unread", None, "unread is null; not a line"),
        ("person", "name", ["Anna"], "name is a list; not a line"),
        ("label", "chat", "1", "chat is text; not a line"),
        ("label", "chat", 2, "chat 2 does not exist"),
        ("label", "person", 2, "person 2: has not joined this review"),
        ("label", "label", 5, "label is a number; not a line"),
        ("label", "label", "histroy", "label 'histroy'; allowed are "),
        ("label", "evidence", [1], "evidence is a list; not a line"),
        ("label", "evidence", 2, "evidence 2 of history; it goes with history and is one of [1]"),
        ("label", "time", "now", "time is text; not a line"),
    ],
)
def test_a_line_of_labels_that_was_edited_wrongly_is_named(run, chat_file, tmp_path, kind, key, value, message):
    store = LabelStore(tmp_path / "chats.jsonl.review.jsonl")
    store.add(chats(1))
    store.put(store.join("Anna"), 1, HISTORY, 1)
    lines = objects(store.path)
    number = [one["kind"] for one in lines].index(kind)
    lines[number][key] = value
    write_jsonl(store.path, lines)
    code, out, err = run("review", chat_file, "--annotators", "1", "--export", tmp_path / "out.jsonl")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"cdconv: {store.path}:{number + 1}: {message}")


@pytest.mark.parametrize(
    "change",
    [
        {"line": [2]}, {"line": "2"}, {"id": {}}, {"probability": "0.5"}, {"probability": [0.5]}, {"probability": 7},
        {"probability": float("nan")}, {"contradiction": "yes"}, {"reply": 3}, {"reply": ["3"]}, {"reply": [99]},
        {"verdicts": 5}, {"verdicts": [5]}, {"verdicts": {}},
    ],
)  # fmt: skip
def test_a_verdict_that_was_edited_wrongly_is_named(tmp_path, change):
    file = write_jsonl(tmp_path / "chats.jsonl", [{"messages": messages} for _, messages in chats(2)])
    verdicts = [{"line": n, "probability": 0.1, "contradiction": False, "reply": [3]} for n in (1, 2)]
    write_jsonl(tmp_path / "verdicts.jsonl", [verdicts[0], verdicts[1] | change])
    with pytest.raises(InputError, match=r"verdicts\.jsonl:2: "):
        chats_of(file, print, None, USUAL, tmp_path / "verdicts.jsonl", 3)


@pytest.fixture
def web(store):
    store.add(chats(1))
    store.join("Anna")
    return TestClient(application(store), base_url="http://localhost")


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("next?person=Anna", None, "person"),
        ("item?person=1&id=-1", None, "id"),
        ("label", '{"person": 1, "item": 9223372036854775808, "label": "history"}', "chat"),
        ("label", '{"person": 1}', "item"),
        ("join", '{"name": "\\ud800"}', "name"),
    ],
)
def test_a_request_that_the_page_cannot_use_is_rejected_without_naming_files(web, path, body, place):
    headers = {"content-type": "application/json"}
    answer = web.post(f"/api/{path}", content=body, headers=headers) if body else web.get(f"/api/{path}")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert place in error and "\n" not in error and "/" not in error


def test_a_file_of_labels_that_cannot_be_opened_makes_the_page_send_the_label_again(web, store, caplog):
    folder = store.path.parent
    folder.rename(folder.with_name("away"))
    label = {"person": 1, "item": 1, "label": NONE}
    answer = web.post("/api/label", json=label)
    assert answer.status_code == 503, "the page repeats a request after a failure of the server"
    assert str(folder) not in answer.text and str(folder) in caplog.text
    folder.with_name("away").rename(folder)
    assert web.post("/api/label", json=label).json() == {"saved": True}


@pytest.fixture
def chat_file(tmp_path):
    file = tmp_path / "chats.jsonl"
    file.write_text("\n".join([*(line(messages, id=name) for name, messages in chats(60)), line([])]), encoding="utf-8")
    return file


def test_what_is_sent_again_after_a_full_disk_is_written_once(store):
    store.add(chats(1))
    with full_disk(store.path.stat().st_size + 5):
        for _ in range(2):
            with pytest.raises(StoreError):
                store.join("Anna")
    store.join("Anna")
    store.put(store.join("Ben"), 1, NONE)
    again = LabelStore(store.path)
    assert (again.join("Anna"), again.join("Ben")) == (1, 2)
    assert again.next(2) is None


def test_a_kill_during_annotation_loses_no_acknowledged_label(run, chat_file, tmp_path):
    port = free_port()
    command = ["review", chat_file, "--port", port]
    process = start_cdconv(*command)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
    assert wait_for(lambda: is_answered(str(client.base_url)), process), process.communicate()
    assert "历史矛盾" in client.get("/").text
    acknowledged = []

    def annotate(name):
        try:
            person = client.post("/api/join", json={"name": name}).json()["person"]
            while item := client.get(f"/api/next?person={person}").json()["item"]:
                label = {"person": person, "item": item["id"], "label": HISTORY, "evidence": 1}
                client.post("/api/label", json=label).raise_for_status()
                acknowledged.append((item["id"], person))
                time.sleep(0.02)
        except (httpx.HTTPError, ValueError):  # it was killed
            pass

    threads = [threading.Thread(target=annotate, args=(name,)) for name in ("Anna", "Ben")]
    [thread.start() for thread in threads]
    wait_for(lambda: len(acknowledged) >= 30)
    process.send_signal(signal.SIGKILL)
    process.wait()
    [thread.join(60) for thread in threads]
    assert 30 <= len(acknowledged) < 120
    labels = tmp_path / "chats.jsonl.review.jsonl"
    kept = {(item.id, person) for item, own, _ in LabelStore(labels).reviewed() for person in own}
    assert set(acknowledged) <= kept and len(kept) <= len(acknowledged) + 2
    with labels.open("ab") as file:
        file.write(b'{"kind": "label", "chat": 1')
    # The next start continues where the first ended.
    process = start_cdconv(*command)
    try:
        assert wait_for(lambda: is_answered(str(client.base_url)), process), process.communicate()
        assert client.post("/api/join", json={"name": "Anna"}).json()["person"] in (1, 2)
        done = {person: client.get(f"/api/next?person={person}").json()["done"] for person in (1, 2)}
        assert done == {person: sum(who == person for _, who in kept) for person in (1, 2)}
        code, _, err = run("review", chat_file, "--port", free_port())
        assert code == 2 and "another process" in err
        code, _, err = run("review", chat_file, "--export", tmp_path / "out.jsonl")
        assert "Traceback" not in err, "people see the agreement while the page runs"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    store = LabelStore(labels)
    for person in (1, 2):
        while item := store.next(person):
            store.put(person, item.id, NONE)
    code, out, _ = run("review", chat_file, "--export", tmp_path / "out.jsonl")
    assert code == 0 and "Cohen's kappa" in out and "spot checks" not in out
    rows = objects(tmp_path / "out.jsonl")
    assert rows == store.export() and rows
    assert {row["evidence"] for row in rows if row["label"] == HISTORY} == {1}


def test_an_export_never_overwrites_what_the_command_reads(run, chat_file, tmp_path):
    labels, checks = tmp_path / "chats.jsonl.review.jsonl", tmp_path / "checks.jsonl"
    LabelStore(labels).add(chats(2))
    checks.write_text("", encoding="utf-8")
    (tmp_path / "link.jsonl").symlink_to(chat_file)
    before = {file: file.read_bytes() for file in (chat_file, labels, checks)}
    for file in (*before, tmp_path / "link.jsonl"):
        code, _, err = run("review", chat_file, "--spot-checks", checks, "--export", file)
        assert code == 2 and f"{file}: is the input, and --export {file} would overwrite it" in err
    assert {file: file.read_bytes() for file in before} == before
