"""Labelled chats of a bot owner: reading, conversion to rows, calibration, and training."""

import json
import re
import shutil
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
from helpers.chats import chat
from helpers.chats import write_jsonl as write
from helpers.runs import TINY_RECIPE
from huggingface_hub import ModelCard

from contradiction import train
from contradiction.data import labelled
from contradiction.data.splits import SPLITS, languages_of, load_split
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation import chat_calibration
from contradiction.evaluation.licences import licence_of
from contradiction.io.files import locked, read_json
from contradiction.methods.loading import load_rule, save_rule
from contradiction.runs import adapt
from contradiction.training import record

NONE, HISTORY = "non-contradiction", "history"
CAT = ("你养猫吗？", "养了一只橘猫", "今天天气好", "是啊", "猫叫什么？", "我没养过猫")


def one(*texts, label=HISTORY, **more):
    return {"messages": chat(*texts), "label": label, **more}


def cat(number, reply="没养", **more):
    return one(f"你养{number}猫吗？", "养了", "叫什么？", reply, **more)


def rows_of(tmp_path, record):
    [labelled_chat] = labelled.read(write(tmp_path / "one.jsonl", [record]))
    return [(tuple(row.values()), label) for row, label in labelled_chat.rows()]


def test_a_contradiction_becomes_its_evidence_window_and_a_consistent_chat_all_windows(tmp_path):
    first, near = (*CAT[:2], *CAT[4:]), CAT[2:]
    assert rows_of(tmp_path, one(*CAT, evidence=1)) == [(first, HISTORY)]
    assert rows_of(tmp_path, one(*CAT, evidence=[1])) == [(first, HISTORY)]
    assert rows_of(tmp_path, one(*CAT)) == [], "the contradicted reply is not marked"
    assert rows_of(tmp_path, one(*CAT, label="role-confusion")) == [(near, "role-confusion")]
    assert rows_of(tmp_path, one(*CAT, label=NONE)) == [(first, NONE), (near, NONE)]
    assert rows_of(tmp_path, one(*CAT[:4])) == [(CAT[:4], HISTORY)]
    apart = {"messages": chat(*CAT[:3]), "reply": CAT[3], "label": HISTORY}
    assert rows_of(tmp_path, apart) == [(CAT[:4], HISTORY)]


def told(*texts, **more):
    """A chat whose bot got a persona."""
    labelled_chat = one(*texts, **more)
    return labelled_chat | {"messages": [{"role": "system", "content": "你养了猫"}, *labelled_chat["messages"]]}


def test_no_detector_learns_from_contradictions_of_what_the_bot_was_told(run, random_model, tmp_path):
    beside = one(*CAT[:4], system="你养了猫")
    for without_evidence in (beside, told(*CAT[:4]), told(*CAT[:2]), told(*CAT, label="contradiction")):
        assert rows_of(tmp_path, without_evidence) == []
    for other in (told(*CAT[:4], evidence=2), told(*CAT[:4], label="intra-sentence"), one(*CAT[:4], system="")):
        assert rows_of(tmp_path, other)
    sure = [cat(n, label=HISTORY if n % 2 else NONE) for n in range(40)]
    personas = [told(f"你{n}岁了吗？", "没有", label=HISTORY) for n in range(3)]
    file = write(tmp_path / "labels.jsonl", [*sure, *personas])
    why = f"3 {labelled.OF_INSTRUCTIONS.format(label=HISTORY)}"
    built = labelled.build(file)
    assert [f"{count} {reason}" for reason, count in built.left_out.items()] == [why]
    assert sum(len(load_split(built.folder, "4-class", split)) for split in SPLITS) == 40
    code, out, err = run("adapt", file, "--model", random_model("4-class"), "--out", tmp_path / "mine")
    assert code == 0 and f"{file}: {why}" in err and re.search("chats .*40, of them 20 contradictions", out), err
    write(file, [*sure[:12], *personas])
    assert f"at least 10 of each; {why}" in run("adapt", file, "--model", random_model("4-class"))[2]


def test_names_of_speakers_are_read_wherever_labelled_chats_are(run, random_model, tmp_path):
    texts = [(speaker, text) for speaker, text in zip(("小明", "小冰") * 2, CAT, strict=False)]
    messages = [{"role": speaker, "content": text} for speaker, text in texts]
    file = write(tmp_path / "named.jsonl", [{"messages": messages, "label": HISTORY}] * 2)
    names = ("--user-name", "小明", "--bot-name", "小冰")
    for command in (("evaluate", random_model("4-class"), file), ("adapt", file), ("train", "flatten", "--data", file)):
        assert "--bot-name says" in run(*command)[2]
        code, out, err = run(*command, *names)
        assert "--bot-name" not in err and (code == 0 or "2 contradictions" in err or "0 have none" in err), err


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (one(*CAT, label="lie"), "one.jsonl:1: label 'lie'; allowed are non-contradiction, intra-sentence"),
        (one(*CAT[:3]), "the last message must be"),
        (one(*CAT, evidence=2), r"evidence 2; it must be the index of an earlier message of the assistant \(1, 3\)"),
        ({"messages": chat(*CAT)}, "one.jsonl:1: has no label"),
        ({"messages": [{"role": "narrator"}], "label": NONE}, r"messages\[0\]: role 'narrator'"),
        ({"messages": 3, "reply": "x", "label": NONE}, "it must be a list"),
    ],
)
def test_the_error_names_an_unusable_line(tmp_path, record, message):
    with pytest.raises(InputError, match=message):
        rows_of(tmp_path, record)


def test_a_data_repo_has_each_chat_in_one_split_and_is_rebuilt_only_for_other_rows(tmp_path):
    records = [cat(n // 2, f"回复{n}", label=HISTORY if n % 2 else NONE) for n in range(80)]
    file = write(tmp_path / "labels.jsonl", records)
    built = labelled.build(file)
    assert built.folder == tmp_path / "labels.data" and not built.left_out
    assert languages_of(built.folder) == ["zh"]
    splits = {split: load_split(built.folder, "4-class", split) for split in ("train", "validation", "test")}
    assert [len(rows) / 80 for rows in splits.values()] == pytest.approx([0.6, 0.2, 0.2], abs=0.15)
    contexts = [set(rows["u1"]) for rows in splits.values()]
    assert len(set.union(*contexts)) == sum(map(len, contexts)) == 40
    names = splits["train"].features["label"].names
    assert {names[label] for label in splits["test"]["label"]} == {NONE, HISTORY}
    merged = load_split(built.folder, "2-class", "test")
    assert list(merged["label"]) == [int(label > 0) for label in splits["test"]["label"]]
    before = (built.folder / "README.md").stat().st_mtime_ns
    labelled.build(file)
    assert (built.folder / "README.md").stat().st_mtime_ns == before
    write(file, records[:60])
    fewer = load_split(labelled.build(file).folder, "4-class", "train")
    assert fewer["b2"][:] == [reply for reply in splits["train"]["b2"] if int(reply.removeprefix("回复")) < 60]
    (tmp_path / "mine.data").mkdir()
    (tmp_path / "mine.data" / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(InputError, match="not a data repo of labelled chats"):
        labelled.build(shutil.copy(file, tmp_path / "mine.jsonl"))


def test_of_several_processes_one_writes_the_data_repo_and_the_others_wait(tmp_path):
    records = [cat(n, label=HISTORY if n % 2 else NONE) for n in range(20)]
    file = write(tmp_path / "labels.jsonl", records)
    finished, out = labelled.build(file, tmp_path / "finished.data").folder, tmp_path / "labels.data"
    other = Thread(target=labelled.build, args=(file,))
    with locked(out):
        other.start()
        other.join(1)
        assert other.is_alive() and not out.exists()
        shutil.copytree(finished, out)
        written = (out / "README.md").stat().st_ino
    other.join()
    assert (out / "README.md").stat().st_ino == written


@pytest.mark.parametrize(("contradictions", "others", "beginnings"), [(0, 20, 20), (18, 4, 22), (20, 20, 4)])
@pytest.mark.filterwarnings("error")
def test_training_needs_five_different_chats_of_each_kind(tmp_path, contradictions, others, beginnings):
    labels = [HISTORY] * contradictions + [NONE] * others
    records = [cat(n % beginnings, f"回复{n}", label=label) for n, label in enumerate(labels)]
    file = write(tmp_path / "few.jsonl", records)
    counts = f"{min(contradictions, beginnings)} have a contradiction and {min(others, beginnings)} have none"
    with pytest.raises(InputError, match=f"few.jsonl: .* {counts}; .* at least 5 of each"):
        labelled.build(file)
    more = [one(f"你好{n}", f"你好{n}", label=label) for n in range(10) for label in ("role-confusion", NONE)]
    write(file, records + more)
    for split in ("train", "validation", "test"):
        assert set(load_split(labelled.build(file).folder, "2-class", split)["label"]) == {0, 1}


def split_of_chats(file):
    folder = labelled.build(file).folder
    return {chat: split for split in SPLITS for chat in load_split(folder, "2-class", split)["chat"]}


def test_a_chat_stays_in_its_split_when_chats_are_added(tmp_path):
    records = [cat(n, f"回复{n}", label=HISTORY if n % 3 else NONE, id=n) for n in range(120)]
    few = split_of_chats(write(tmp_path / "few.jsonl", records[:60]))
    # Also before the first ones: chats of one turn with the same first message, and chats that begin alike.
    short = [one(f"你养{n}猫吗？", f"没养{n}", label=NONE, id=200 + n) for n in range(0, 60, 5)]
    begun = [one(f"你养{n}猫吗？", "养了", "叫什么？", "小咪", label=NONE, id=300 + n) for n in range(60)]
    more = split_of_chats(write(tmp_path / "more.jsonl", [*records[60:], *short, *begun, *records[:60]]))
    assert len(few) == 60 and len(more) == 192
    assert {chat: more[chat] for chat in few} == few
    assert all(more[str(300 + int(chat))] == split for chat, split in few.items())


def test_a_small_file_has_chats_of_each_kind_and_frequent_label_in_each_split(tmp_path, monkeypatch):
    labels = [label for label in (NONE, HISTORY, "role-confusion") for _ in range(5)]
    records = [cat(n, label=label) for n, label in enumerate(labels)]
    for place in SPLITS:  # by chance all may be in one split
        file = write(tmp_path / f"{place}.jsonl", records)
        with monkeypatch.context() as patch:
            patch.setattr(labelled, "_split_of", lambda context, place=place: place)
            folder = labelled.build(file).folder
        for split in SPLITS:
            assert len(set(load_split(folder, "4-class", split)["label"])) == 3


def test_an_evaluation_on_the_chats_of_a_calibration_reports_the_leakage(
    run, random_model, sample_repo, sample_chats, tmp_path
):
    folder = random_model("4-class")
    records = [
        {"messages": messages, "label": NONE if n % 2 else "role-confusion"}
        for n, messages in enumerate(sample_chats[:60])
    ]
    labels, others = write(tmp_path / "labels.jsonl", records), write(tmp_path / "others.jsonl", records[:-1])
    fitted, again, result = shutil.copytree(folder, tmp_path / "fitted"), tmp_path / "again", tmp_path / "result.json"
    record.write_calibrated_on(fitted, labelled.name_of_file(labels))
    assert run("calibrate", fitted, "--data", sample_repo, "--out", again)[0] == 0
    why = "has a decision rule that was fitted to these chats"
    for model, file in ((fitted, labels), (fitted, others), (folder, labels), (again, labels)):
        found = why if (model, file) == (fitted, labels) else None
        code, _, err = run("evaluate", model, "--data", file, "--json", result)
        assert (code, "its scores are too high" in err) == (0, found is not None), err
        assert read_json(result)["leakage"] == found


def test_chats_that_begin_alike_are_held_out_together():
    truth = np.arange(60) % 2 == 0
    folds = chat_calibration.folds(truth, [str(place // 4) for place in range(60)])
    assert sorted(np.concatenate([held_out for _, held_out in folds]).tolist()) == list(range(60))
    for rest, held_out in folds:
        assert not {*(rest // 4)} & {*(held_out // 4)}
    # With too few beginnings, or one for each kind, single chats are held out.
    for contexts in (["one"] * 60, [str(place % 2) for place in range(60)]):
        assert all(len(held_out) == 12 for _, held_out in chat_calibration.folds(truth, contexts))


@pytest.mark.parametrize(("chats", "contradictions"), [(24, 12), (60, 24)])
def test_after_a_calibration_on_few_chats_settings_work_or_say_how_many_chats_they_need(
    run, random_model, sample_chats, tmp_path, chats, contradictions
):
    folder = shutil.copytree(random_model("4-class"), tmp_path / "model")
    chosen = list({json.dumps(messages): messages for messages in sample_chats}.values())[:chats]
    probabilities = [verdict.probability for verdict in ContradictionDetector.from_pretrained(folder).batch(chosen)]
    truth = np.argsort(np.argsort(probabilities)) >= chats - contradictions
    labels = ["contradiction" if contradicts else NONE for contradicts in truth]
    records = [{"messages": one, "label": label} for one, label in zip(chosen, labels, strict=True)]
    file = write(tmp_path / "labels.jsonl", records)
    adapted = tmp_path / "adapted"
    code, _, err = run("adapt", file, "--model", folder, "--out", adapted)
    assert code == 0, err
    few = write(tmp_path / "few.jsonl", records[:12])
    code, _, few_err = run("adapt", few, "--model", folder, "--out", tmp_path / "none")
    assert code == 2 and "a rule needs at least 10 of each" in few_err and not list(tmp_path.glob("*none*"))
    base_rate = round(contradictions / chats, 3)
    for prior in (base_rate, 0.4):
        verdicts = ContradictionDetector.from_pretrained(adapted, prior=prior).batch(chosen)
        assert 0 < sum(verdict.contradiction for verdict in verdicts) < chats
    if contradictions < 20:
        needed = "at least 20 contradictions and 20 other"
        assert needed in err and f"{contradictions} and {chats - contradictions}" in err and err.count("\n") == 1
        with pytest.raises(InputError, match="no precision was measured"):
            ContradictionDetector.from_pretrained(adapted, threshold="precision>=0.7")
    else:
        assert not err
        assert ContradictionDetector.from_pretrained(adapted, threshold="precision>=0.7")


# Own labels: a detector is adapted to them if that is better, and training on few of them keeps a sound rule.


@pytest.fixture
def label(sample_chats, tmp_path):
    """Writes a file of chats; those are contradictions for which a function of the verdicts says so."""

    def labelled_by(name, model, decide, count=160):
        chosen = list({json.dumps(messages): messages for messages in sample_chats}.values())[:count]
        truth = decide(ContradictionDetector.from_pretrained(model).batch(chosen))
        labels = [HISTORY if flag else NONE for flag in truth]
        records = [{"messages": one, "label": label} for one, label in zip(chosen, labels, strict=True)]
        return write(tmp_path / name, records)

    return labelled_by


def most_probable(verdicts, share=0.2):
    probabilities = np.array([verdict.probability for verdict in verdicts])
    return probabilities > np.quantile(probabilities, 1 - share)


def test_a_rule_is_kept_only_if_it_is_better_on_chats_held_out(run, label, random_model, tmp_path):
    model, out = random_model("4-class"), tmp_path / "mine"
    labels = label("labels.jsonl", model, most_probable)
    done = adapt(labels, out, model=model)
    low, high = done.after["interval"]["macro_f1"]
    assert low <= done.after["macro_f1"] <= high
    assert done.difference["macro_f1_difference"] > 0.1
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    chats = labelled.read(labels)
    truth = np.array([one.label != NONE for one in chats])
    before, now = (
        ContradictionDetector.from_pretrained(folder).batch([one.messages for one in chats]) for folder in (model, out)
    )
    assert np.mean([verdict.contradiction for verdict in before] == truth) < 0.85
    assert np.mean([verdict.contradiction for verdict in now] == truth) > 0.9
    # The probabilities are calibrated: they add up to about the number of contradictions.
    assert sum(verdict.probability for verdict in now) == pytest.approx(truth.sum(), rel=0.25)
    assert load_rule(out).prior == pytest.approx(truth.mean(), abs=1e-4) and load_rule(out).curve
    assert load_rule(out) != load_rule(model)
    assert record.read(out)["calibrated_on"] == [labelled.name_of_file(labels)]
    with pytest.raises(InputError, match="decision rule that was fitted to these chats"):
        adapt(labels, tmp_path / "again", model=out)
    own = label("own.jsonl", out, lambda verdicts: [verdict.contradiction for verdict in verdicts])
    code, shown, err = run("adapt", own, "--model", out, "--out", tmp_path / "again")
    assert code == 0, err
    assert f"{out}: stays" in shown and not (tmp_path / "again").exists()


def test_the_card_of_an_adapted_detector_has_the_name_of_its_folder(label, random_model, quick_model, tmp_path):
    start = shutil.copytree(random_model("4-class"), tmp_path / "start")
    shutil.copy(quick_model / "run.json", start)
    adapt(label("labels.jsonl", start, most_probable), tmp_path / "mine", model=start)
    text = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert "# mine\n" in text and 'from_pretrained("mine")' in text and 'model="mine"' in text


def test_first_replies_keep_their_own_threshold_which_moves_with_their_probability(
    random_model, sample_chats, tmp_path
):
    model = shutil.copytree(random_model("4-class"), tmp_path / "model")
    chosen = list({json.dumps(messages): messages for messages in sample_chats}.values())[:120]
    chats = [messages if number % 3 else messages[:2] for number, messages in enumerate(chosen)]
    found = np.array([one.probability for one in ContradictionDetector.from_pretrained(model).batch(chats)])
    save_rule(model, replace(load_rule(model), opening=float(np.median(found[::3]).round(4))))
    old = ContradictionDetector.from_pretrained(model)
    truth = found > np.quantile(found, 0.8)  # far fewer than the detector calls
    records = [
        {"messages": one, "label": "contradiction" if flag else NONE} for one, flag in zip(chats, truth, strict=True)
    ]
    done = chat_calibration.fit(old, labelled.read(write(tmp_path / "labels.jsonl", records)))
    assert done.called_before.tolist() == [verdict.contradiction for verdict in old.batch(chats)]
    assert done.called_before[::3].sum() <= 20 < (found[::3] >= done.before.threshold).sum()
    save_rule(model, done.rule)
    new = np.array([one.probability for one in ContradictionDetector.from_pretrained(model).batch(chats)])
    assert done.rule.opening < done.before.opening - 0.01
    assert (new[::3] >= done.rule.opening).sum() == pytest.approx((found[::3] >= done.before.opening).sum(), abs=1)


def test_a_model_of_few_labels_keeps_the_rule_and_the_licence_of_its_start(label, quick_model, tmp_path, caplog):
    start = shutil.copytree(quick_model, tmp_path / "start")
    run = (start / "run.json").read_text(encoding="utf-8")
    (start / "run.json").write_text(run.replace('"CDConv sample"', '"CDConv"'), encoding="utf-8")
    labels = label("labels.jsonl", quick_model, lambda verdicts: most_probable(verdicts, 0.4), count=80)
    recipe = {"config": "4-class", "view": "flatten", "epochs": 1, "learning_rate": 1e-5}
    out = train(recipe, labels, tmp_path / "own", backbone=str(start))
    assert load_rule(out) == load_rule(start)
    assert "has the decision rule of start" in caplog.text
    card = ModelCard.load(out / "README.md")
    assert card.data.license == licence_of(record.read(out)) == "cc-by-nc-4.0"
    assert "Not for commercial use" in card.text and "the decision rule of start" in card.text


def test_the_command_trains_on_a_file_of_labelled_chats(run, label, random_model, tmp_path):
    (tmp_path / "own.toml").write_text(TINY_RECIPE, encoding="utf-8")
    labels = label("labels.jsonl", random_model("4-class"), most_probable)
    code, _, err = run("train", tmp_path / "own.toml", "--data", labels, "--out", tmp_path / "own")
    assert code == 0 and f"{labels}: read as the data repo {tmp_path / 'labels.data'}" in err, err
    assert ContradictionDetector.from_pretrained(tmp_path / "own")(chat(*CAT)).label
