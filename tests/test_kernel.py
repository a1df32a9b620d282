"""Detectors with a frozen encoder: training by a recipe, loading, judging, ensembles, and publishing."""

import shutil

import numpy as np
import pytest
import torch
from helpers.chats import chat
from helpers.runs import train
from numpy.testing import assert_allclose
from safetensors.numpy import load_file, save_file

from contradiction import publishing
from contradiction.data.splits import load_split
from contradiction.decision import softmax
from contradiction.detector import ContradictionDetector
from contradiction.errors import InputError
from contradiction.evaluation.evaluate import evaluate
from contradiction.export import export
from contradiction.inference.embedding import Embedder
from contradiction.inputs.views import CONVERSATION
from contradiction.io import manifest
from contradiction.io.files import read_json, write_json
from contradiction.methods import kernel
from contradiction.methods.checkpoint import CheckpointClassifier
from contradiction.methods.ensemble import EnsembleClassifier
from contradiction.methods.kernel import KernelClassifier, KernelRegression
from contradiction.training import leakage, record
from contradiction.training.recipe import Recipe
from contradiction.training.recipe_files import load_recipe
from paper.baselines import kernel_ridge

RECIPE = '[data]\nview = "flatten"\nconfig = "{}"\n[model]\nmethod = "kernel"\nbackbone = "{}"\n'


@pytest.fixture(scope="module")
def recipe_file(encoder, tmp_path_factory):
    file = tmp_path_factory.mktemp("recipe") / "still.toml"
    file.write_text(RECIPE.format("4-class", encoder), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def fitted(recipe_file, sample_repo, tmp_path_factory):
    from contradiction import cli

    out = tmp_path_factory.mktemp("frozen") / "still"
    command = ["train", recipe_file, "--data", sample_repo, "--out", out]
    assert not cli.app([*map(str, command)], standalone_mode=False)
    return out


def test_the_detector_equals_the_baseline_with_the_same_encoder(fitted, sample_repo, encoder):
    baseline = kernel_ridge(sample_repo, "4-class", Embedder(encoder))
    evaluation = evaluate(ContradictionDetector.from_pretrained(fitted), data=sample_repo, config="4-class")
    assert evaluation["predictions"] == baseline["predictions"]
    assert_allclose(evaluation["probabilities"], baseline["probabilities"], atol=1e-5)
    for part in ("temperature", "biases", "threshold"):
        assert evaluation["rule"][part] == pytest.approx(baseline["rule"][part], abs=1e-3)


def test_a_loaded_model_gives_the_predictions_of_the_fitted_one(encoder, sample_repo, tmp_path):
    rows = list(load_split(sample_repo, "4-class", "train"))[:150]
    labels = [row["label"] for row in rows]
    for columns, embed in ((CONVERSATION, Embedder(encoder)), (("b1", "b2"), None)):
        folder = tmp_path / str(len(columns))
        folder.mkdir()
        model = KernelRegression(columns, embed).fit(rows[:100], labels[:100])
        model.save(folder)
        again = KernelRegression.load(folder, embed)
        assert again.columns == columns
        assert_allclose(again.predict_proba(rows[100:]), model.predict_proba(rows[100:]), atol=1e-6)
    # It contains no text of the rows except n-grams.
    text = (folder / "kernel.json").read_text(encoding="utf-8")
    assert not [row["b2"] for row in rows if len(row["b2"]) > 3 and row["b2"] in text]


def test_an_utterance_without_words_is_similar_to_no_other(encoder, sample_repo):
    rows = list(load_split(sample_repo, "4-class", "train"))[:100]
    model = KernelRegression(CONVERSATION, Embedder(encoder)).fit(rows, [row["label"] for row in rows])
    nothing = model._features([dict.fromkeys(CONVERSATION, " ")])
    assert [float(abs(vector).sum()) for vector in nothing] == [0, 0]
    shares = np.bincount([row["label"] for row in rows], minlength=4) / len(rows)
    # Far from all rows the regression predicts almost nothing, and the label shares remain.
    assert_allclose(model.predict_proba([dict.fromkeys(CONVERSATION, "")])[0], shares, atol=0.15)


def test_a_chat_is_judged_in_windows_and_each_message_is_embedded_once(fitted, monkeypatch):
    detector = ContradictionDetector.from_pretrained(fitted)
    embedded = []
    once = detector.classifier.embed._embed
    monkeypatch.setattr(detector.classifier.embed, "_embed", lambda texts: embedded.extend(texts) or once(texts))
    messages = chat("你好", "你好呀", "你养猫吗", "我养了一只猫", "它多大", "三岁了", "你有猫吗", "我没有猫")
    verdicts = detector.scan(messages)
    assert len(verdicts) == 4 and all(verdict.checked for verdict in verdicts[1:])
    assert len(embedded) == len(set(embedded)) <= len(messages) + 1  # plus the empty text of an opening
    before = len(embedded)
    detector(chat("你養貓嗎", "我養了一隻貓", "牠多大", "三歲了"))
    assert len(embedded) <= before + 4, "in traditional characters each message is one too"
    window = dict(zip(CONVERSATION, ("你养猫吗", "我养了一只猫", "你有猫吗", "我没有猫"), strict=True))
    [alone] = detector.classifier.predict([window])
    assert verdicts[-1].scores["history"] >= alone.probabilities["history"] - 1e-6 > 0
    whole = detector.with_settings(windowing="unstructured").scan(messages)
    assert whole[-1].scores != verdicts[-1].scores


def test_a_message_that_is_too_long_is_reported_as_truncated(fitted):
    detector = ContradictionDetector.from_pretrained(fitted)
    limit = detector.classifier.embed.max_length
    long = chat("你好", "我养了一只猫" * limit, "它多大", "我没有猫")
    verdict = detector(long)
    assert not verdict.checked and f"reads at most {limit}" in verdict.reason
    assert detector(chat("你好", "我养了一只猫", "它多大", "我没有猫")).checked
    # The end of the message is read.
    embed = detector.classifier.embed
    assert_allclose(*embed(["猫" * 20 * limit, "猫" * 30 * limit]), atol=1e-5)
    assert embed.truncated(["猫" * 20 * limit, "猫"]) == [True, False]


def test_a_kernel_detector_can_form_an_ensemble_with_a_trained_one(run, fitted, quick_model, sample_repo, tmp_path):
    pair = Recipe.of(name="pair", view="sentence-pair", config="4-class", backbone=str(quick_model), epochs=1)
    pair = train(pair, data=sample_repo, out=tmp_path / "pair")
    code, _, err = run("ensemble", fitted, pair, "--data", sample_repo, "--out", tmp_path / "both")
    assert code == 0, err
    rows = list(load_split(sample_repo, "4-class", "test"))[:20]
    both = ContradictionDetector.from_pretrained(tmp_path / "both").classifier
    members = (KernelClassifier.load(fitted), CheckpointClassifier.load(pair))
    logs = [
        np.log(
            [list(prediction.probabilities.values()) for prediction in member.predict(rows)]
        )  # each calibrated by its own rule
        for member in members
    ]
    assert_allclose(both.score(rows).logits, np.mean(logs, axis=0), atol=1e-5)
    card = (tmp_path / "both" / "README.md").read_text(encoding="utf-8")
    assert "`still`: view flatten, kernel ridge regression on a frozen encoder" in card
    assert 'model="both/pair"' in card, "the member that transformers can load is the example"
    assert "is not looked at" not in card, "one member reads what the user says"
    upload = publishing.model(tmp_path / "both", "user/both")
    assert {"still/kernel.json", "still/kernel.safetensors", "still/encoder/model.safetensors"} <= upload.files.keys()
    (tmp_path / "both" / "still" / "kernel.safetensors").unlink()
    with pytest.raises(InputError, match=r"still: no kernel\.safetensors"):
        publishing.model(tmp_path / "both", "user/both")


def test_the_record_reproduces_the_model_and_its_card_and_export_are_complete(
    run, fitted, encoder, sample_repo, tmp_path
):
    held = record.read(fitted)
    assert held["request"]["recipe"]["model"]["method"] == "kernel" and "epochs" not in held
    assert held["parameters"] == sum(
        parameter.numel() for parameter in torch.nn.Module.parameters(Embedder(encoder)._model)
    )
    command = ["train", fitted, "--backbone", encoder, "--data", sample_repo, "--out", tmp_path / "again"]
    assert run(*command)[0] == 0
    for file in ("kernel.safetensors", "kernel.json", "encoder/model.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (fitted / file).read_bytes()
    assert run(*command)[0] == 2
    assert run(*command, "--resume")[0] == 0
    card = (fitted / "README.md").read_text(encoding="utf-8")
    for line in (
        "`transformers` alone cannot load it; the library can:",
        'ContradictionDetector.from_pretrained("still")',
        "nothing was fine-tuned: kernel ridge regression",
        "embeddings by the frozen encoder encoder",
        "of embedding and fitting on",
    ):
        assert line in card
    assert "pipeline(" not in card and "epochs" not in card and "library_name" not in card
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in fitted.rglob("*")), "anyone may read it"
    upload = publishing.model(fitted, "user/still")
    assert {"kernel.json", "kernel.safetensors", "encoder/model.safetensors"} <= upload.files.keys()
    with pytest.raises(InputError, match="--calibrate-head is only for a single checkpoint"):
        export(fitted, tmp_path / "half", calibrate_head=True)
    half = export(fitted, tmp_path / "half")
    rows = list(load_split(sample_repo, "4-class", "test"))[:20]
    one, other = (KernelClassifier.load(folder).score(rows).logits for folder in (fitted, half))
    assert_allclose(softmax(one), softmax(other), atol=0.01)
    size = sum(file.stat().st_size for file in half.rglob("*.safetensors"))
    assert size < 0.75 * sum(file.stat().st_size for file in fitted.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[optimizer]\nepochs = 3", "remove optimizer.epochs"),
        ("[augmentation]\ncontext_negatives = 1", "remove augmentation.context_negatives"),
        ("[model.scratch]\nlayers = 1", "either the key"),
    ],
)
def test_a_recipe_key_without_effect_is_rejected(tmp_path, encoder, lines, message):
    file = tmp_path / "it.toml"
    file.write_text(f"{RECIPE.format('4-class', encoder)}{lines}\n", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_recipe(file)


def test_unsupported_training_options_raise_one_line(run, recipe_file, quick_model, sample_repo, tmp_path):
    command = ["train", recipe_file, "--data", sample_repo, "--out", tmp_path / "it"]
    for options, message in (
        (["--save-steps", "5"], "leave --save-steps out"),
        (["--track", "tensorboard"], "leave --track out"),
        (["--teacher", quick_model], "remove distillation.teachers"),
        (["--backbone", quick_model], "trained on 4-class, and knows the labels of these rows"),
    ):
        code, _, err = run(*command, *options)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    assert not [*tmp_path.iterdir()]


def test_the_model_is_fitted_to_the_requested_share_of_rows(recipe_file, sample_repo, tmp_path):

    few = train(load_recipe(recipe_file).with_changes(train_fraction=0.5), data=sample_repo, out=tmp_path / "few")
    rows = len(load_split(sample_repo, "4-class", "train"))
    assert len(load_file(few / "kernel.safetensors")["dual"]) == pytest.approx(rows / 2, abs=2)
    assert leakage.describe_leakage(record.read(few), "4-class-grouped", "test") is not None


def test_more_rows_than_can_be_compared_raise_one_line(run, recipe_file, sample_repo, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel, "MAX_ROWS", 50)
    code, _, err = run("train", recipe_file, "--data", sample_repo, "--out", tmp_path / "it")
    assert code == 2
    assert "fit it to a fraction of them, at most 50" in err.splitlines()[-1]
    assert not [*tmp_path.iterdir()]


def test_a_damaged_folder_raises_one_line(fitted, tmp_path):
    broken = shutil.copytree(fitted, tmp_path / "it")
    for folder in (broken, broken / "encoder"):  # otherwise the manifest rejects everything as changed
        (folder / manifest.NAME).unlink()
    arrays = load_file(broken / "kernel.safetensors")

    def rewrite(**changed):
        save_file({name: array.copy() for name, array in {**arrays, **changed}.items()}, broken / "kernel.safetensors")

    description = read_json(broken / "kernel.json")

    def describe(**changed):
        write_json(broken / "kernel.json", description | changed)

    for damage, message in (
        (lambda: describe(labels=None), "names no labels"),
        (lambda: describe(labels=["a"]), "its labels are a"),
        (lambda: describe(encoders=[]), '"encoders": '),
        (lambda: describe(ngrams=None), "damaged or do not belong together"),
        (
            lambda: save_file({"dual": arrays["dual"]}, broken / "kernel.safetensors"),
            "damaged or do not belong together",
        ),
        (lambda: rewrite(embeddings=arrays["embeddings"][1:]), r"embeddings of 2\d\d rows and of this encoder are"),
        (lambda: rewrite(mean=arrays["mean"][1:]), r"embeddings of 2\d\d rows and of this encoder are"),
        (lambda: rewrite(shares=arrays["shares"][1:]), "4 classes and weights for 4"),
        (lambda: (broken / "kernel.safetensors").write_bytes(b"nothing"), "damaged or do not belong together"),
        (lambda: shutil.rmtree(broken / "encoder"), "neither a folder with an encoder"),
    ):
        damage()
        with pytest.raises(InputError, match=message) as error:
            ContradictionDetector.from_pretrained(broken)
        assert "\n" not in str(error.value)
        describe()
    for options, message in (({"view": "flatten"}, "leave the view out"), ({"precision": "fp16"}, "fp16 is slower")):
        with pytest.raises(InputError, match=message):
            ContradictionDetector.from_pretrained(fitted, device="cpu", **options)
    with pytest.raises(InputError, match="batch_size 0"):
        ContradictionDetector.from_pretrained(fitted).batch([chat("你好", "你好")] * 2, batch_size=0)


def test_an_opening_reply_is_left_to_members_that_can_judge_it(fitted, quick_model):
    opening = chat("你好", "我有一只猫，我没有猫")
    assert ContradictionDetector.from_pretrained(fitted)(opening).label is None
    still, flatten = KernelClassifier.load(fitted), CheckpointClassifier.load(quick_model)
    window = {"u1": "", "b1": "", "u2": "你好", "b2": "我有一只猫，我没有猫"}
    [alone] = flatten.predict([window])
    both = EnsembleClassifier([still, flatten])
    assert_allclose(
        both.score([window]).logits[0], np.log([alone.probabilities[name] for name in both.labels]), atol=1e-5
    )
    assert ContradictionDetector(both)(opening).label is not None
