"""Damaged and malicious model folders: each is a named change to a good folder."""

import json
import pickle
import shutil

import torch
from safetensors.torch import load_file, save_file

from contradiction.decision import KEY

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
OPTIONS = "tokenizer_config.json"
CODE = "from pathlib import Path\nPath({mark!r}).touch()\nclass It: pass\n"


class Harm:
    """Creates a marker file when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


def _json(name, change):
    def apply(folder):
        values = json.loads((folder / name).read_text(encoding="utf-8"))
        values = change(values) or values
        (folder / name).write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")

    return apply


def _set(name, **values):
    return _json(name, lambda old: old | values)


def _rule(**values):
    rule = {"temperature": 1.0, "biases": {}, "threshold": 0.5, "prior": None, "curve": []}
    return _set(CONFIG, **{KEY: rule | values})


def _write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def _remove(*names):
    return lambda folder: [(folder / name).unlink(missing_ok=True) for name in names]


def with_weights(change):
    def apply(folder):
        tensors = load_file(folder / WEIGHTS)
        tensors = change(tensors) or tensors
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS, {"format": "pt"})

    return apply


def without(part):
    return with_weights(lambda tensors: {name: tensor for name, tensor in tensors.items() if part not in name})


def fill(part, value):
    def change(tensors):
        for name in tensors:
            if part in name:
                tensors[name].flatten()[0] = value

    return with_weights(change)


def _cut(name, share):
    def apply(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(share * len(content))])

    return apply


def _flip(folder):
    """Flips an exponent bit of one weight in the middle of the file."""
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 0x10
    (folder / WEIGHTS).write_bytes(content)


def _pickled(folder):
    (folder / WEIGHTS).unlink()
    torch.save({"classifier.weight": torch.zeros(4, 32)}, folder / "pytorch_model.bin")


def _harmful(folder):
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Harm(folder.parent / "mark")))


def _pickled_part(folder):
    """An index of safetensors that names a pickle, which holds all the weights."""
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    torch.save(weights, folder / "part.bin")
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "part.bin")}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index), encoding="utf-8")


def _code(name, **values):
    def apply(folder):
        (folder / "it.py").write_text(CODE.format(mark=str(folder.parent / "mark")), encoding="utf-8")
        _set(name, **values)(folder)

    return apply


def _shuffled(values):
    vocabulary = values["model"]["vocab"]
    values["model"]["vocab"] = dict(zip(vocabulary, reversed(vocabulary.values()), strict=True))


def _more_tokens(values):
    token = {"content": "更大", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    values["added_tokens"].append({"id": 100_000, "special": True, **token})


AUTO = {"AutoConfig": "it.It", "AutoModelForSequenceClassification": "it.It", "AutoTokenizer": ["it.It", "it.It"]}
LABELS = {"0": "non-contradiction", "1": "intra-sentence", "2": "role-confusion", "3": "history"}
SWAPPED = {"0": "history", "1": "intra-sentence", "2": "role-confusion", "3": "non-contradiction"}
KEYS = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "model_type", "id2label", "architectures", "layer_norm_eps",
)  # fmt: skip

# Name -> the change to the folder. Loading must reject every one of them.
REFUSED = {
    "weights cut in half": _cut(WEIGHTS, 0.5),
    "weights cut in the header": _cut(WEIGHTS, 0.001),
    "weights a header that is too long": _write(WEIGHTS, b"\xff" * 64),
    "weights a pointer": _write(WEIGHTS, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
    "weights absent": _remove(WEIGHTS),
    "weights without the classifier": without("classifier."),
    "weights without the embeddings": without("word_embeddings"),
    "weights without the pooler": without("pooler"),
    "weights one too many": with_weights(lambda old: old | {"bert.more.weight": torch.zeros(3)}),
    "weights of a smaller head": with_weights(lambda old: old | {"classifier.weight": old["classifier.weight"][:2]}),
    "weights of a flat head": with_weights(lambda old: old | {"classifier.weight": old["classifier.weight"].flatten()}),
    "weights with NaN in an embedding": fill("word_embeddings", float("nan")),
    "weights with infinity in a norm": fill("LayerNorm.weight", float("inf")),
    "weights in a pickle": _pickled,
    "weights in a pickle that means harm": _harmful,
    "weights in a pickle that an index names": _pickled_part,
    "config absent": _remove(CONFIG),
    "config null": _write(CONFIG, b"null"),
    "config a list": _write(CONFIG, b"[]"),
    "config no JSON": _write(CONFIG, b"{"),
    "config not UTF-8": _write(CONFIG, b"\xff\xfe{}"),
    "config deep": _write(CONFIG, b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    **{f"config {key} null": _set(CONFIG, **{key: None}) for key in KEYS if key not in ("architectures",)},
    "config hidden_size text": _set(CONFIG, hidden_size="32"),
    "config hidden_size other": _set(CONFIG, hidden_size=64),
    "config hidden_act unknown": _set(CONFIG, hidden_act="nothing"),
    "config vocab_size smaller": _set(CONFIG, vocab_size=7),
    "config one layer more": _set(CONFIG, num_hidden_layers=3),
    "config heads that do not divide": _set(CONFIG, num_attention_heads=5),
    "config model_type unknown": _set(CONFIG, model_type="nothing"),
    "config model_type of images": _set(CONFIG, model_type="vit"),
    "config code of its own": _code(CONFIG, auto_map=AUTO, model_type="it"),
    "config attention from elsewhere": _set(CONFIG, attn_implementation="somebody/kernel"),
    "labels unknown": _set(CONFIG, id2label={key: f"LABEL_{key}" for key in LABELS}),
    "labels twice": _set(CONFIG, id2label=dict.fromkeys(LABELS, "history")),
    "labels not numbered": _set(CONFIG, id2label={f"n{key}": name for key, name in LABELS.items()}),
    "labels one fewer": _set(CONFIG, id2label={key: LABELS[key] for key in "012"}),
    "view unknown": _set(CONFIG, cdconv_view="aloud"),
    "rule threshold NaN": _rule(threshold=float("nan")),
    "rule bias of an unknown label": _rule(biases={"lie": 1.0}),
    "rule temperature 0": _rule(temperature=0.0),
    "rule prior 2": _rule(prior=2.0),
    "rule curve NaN": _rule(curve=[[float("nan"), 0.5, 0.5]]),
    "rule absent": _json(CONFIG, lambda values: {key: value for key, value in values.items() if key != KEY}),
    "rule a list": _set(CONFIG, **{KEY: []}),
    "tokenizer absent": _remove(TOKENIZER),
    "tokenizer null": _write(TOKENIZER, b"null"),
    "tokenizer cut": _cut(TOKENIZER, 0.5),
    "tokenizer not UTF-8": _write(TOKENIZER, b"\xff" * 9),
    "tokenizer model null": _set(TOKENIZER, model=None),
    "tokenizer larger than the embeddings": _json(TOKENIZER, _more_tokens),
    "tokenizer options null": _write(OPTIONS, b"null"),
    "tokenizer options without padding": _set(OPTIONS, pad_token=None),
    "tokenizer options limit text": _set(OPTIONS, model_max_length="long"),
    "tokenizer options limit 0": _set(OPTIONS, model_max_length=0),
    "tokenizer options limit 2": _set(OPTIONS, model_max_length=2),
}

# Changes that only the manifest can distinguish from a good model.
ONLY_BY_MANIFEST = {
    "weights with a byte flipped": _flip,
    "vocabulary shuffled": _json(TOKENIZER, _shuffled),
    "labels swapped": _set(CONFIG, id2label=SWAPPED),
    "rule another": _rule(biases={"history": 3.0}),
    "config quantised": _set(CONFIG, quantization_config={"quant_method": "nothing"}),
    "tokenizer options absent": _remove(OPTIONS),
    "tokenizer options limit null": _set(OPTIONS, model_max_length=None),
    "architecture null": _set(CONFIG, architectures=None),
    "code of its own that is not needed": _code(CONFIG, auto_map=AUTO),
    "code of its own in the tokenizer": _code(OPTIONS, auto_map={"AutoTokenizer": ["it.It", "it.It"]}),
    "tokens added": _write("added_tokens.json", b'{"[MORE]": 5}'),
    "tokens special": _write("special_tokens_map.json", b'{"sep_token": "[MASK]"}'),
    "an older rule": _write("decision.json", b"{}"),
    "an adapter": _write("adapter_config.json", b'{"base_model_name_or_path": "somebody/else"}'),
}

# Lists of members of an ensemble. Each list has a member outside the folder.
OUTSIDE = (["../other", "member"], ["member", "/etc"], [".", "member"], ["", "member"], ["member", "link"])


def ensemble(folder, member, names):
    """Makes an ensemble folder with a member, a link to an outside folder, and the listed member names."""
    shutil.copytree(member, folder / "member")
    shutil.copytree(member, folder.parent / "other")
    (folder / "link").symlink_to(folder.parent / "other")
    (folder / "ensemble.json").write_text(json.dumps({"members": names, "calibrated": True}), encoding="utf-8")
