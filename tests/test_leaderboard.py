"""The plot of the results page: which detectors, in which order, and with which labels."""

import pytest
from PIL import Image

from contradiction import paths
from contradiction.evaluation import results
from contradiction.io.files import write_json
from contradiction.labels import merge_id
from paper import plots
from paper.plots import COLOURS
from paper.results import app as results_app

REFERENCES = [0, 1, 2, 3] * 25


def keep(folder, name, wrong, plain=None, kind="detector", data="these", split="test", config="4-class"):
    """Saves an evaluation whose first labels are wrong: one number with the decision rule, another without it."""

    def labels(count):
        return [(label + 1) % 4 if row < count else label for row, label in enumerate(REFERENCES)]

    result = results.evaluation(
        name=name, config=config, split=split, data=data, ids=list(range(100)), references=REFERENCES,
        predictions=labels(wrong), argmax=labels(wrong if plain is None else plain), kind=kind, run={},
    )  # fmt: skip
    write_json(folder / f"{name}.{split}.json", result)


@pytest.fixture
def folder(tmp_path):
    keep(tmp_path, "a-bad-one", 40)
    keep(tmp_path, "better-by-its-rule", 10, plain=90)
    keep(tmp_path, paths.SHIPPED.name, 30)
    keep(tmp_path, "TF-IDF, all", 20, kind="baseline")
    keep(tmp_path, "of-another-release", 0, data="others")
    keep(tmp_path, "on-validation", 0, split="validation")
    return tmp_path


def test_detectors_on_the_test_rows_are_ranked_by_their_decisions(folder):
    fine, coarse = plots.leaderboard(results.published(folder))
    assert [(line.name, line.kind) for line in fine.methods] == [
        ("better-by-its-rule", "trained"),
        ("TF-IDF, all", "baseline"),
        (paths.SHIPPED.name, "shipped"),
        ("a-bad-one", "trained"),
    ]
    assert [line.name for line in coarse.methods] == [line.name for line in fine.methods]
    assert (fine.config, coarse.config, fine.n) == ("4-class", "2-class", 100)
    accuracy = [line.mean("accuracy") for line in fine.methods]
    assert accuracy == pytest.approx([0.9, 0.8, 0.7, 0.6])
    # Confusing one contradiction with another is right once they are merged.
    right = [merge_id("4-class", label) == merge_id("4-class", (label + 1) % 4) for label in REFERENCES[:40]]
    assert coarse.methods[-1].mean("accuracy") == pytest.approx(0.6 + sum(right) / 100)


def test_the_plot_is_written_beside_the_page_that_shows_it(folder, run, tmp_path):
    page = tmp_path / "out" / "README.md"
    page.parent.mkdir()
    code, _, _ = run("--folder", folder, "--out", page, app=results_app)
    assert code == 0
    text = page.read_text(encoding="utf-8")
    assert f"]({plots.LEADERBOARD})" in text
    assert text.index("better-by-its-rule") < text.index("TF-IDF, all |") < text.index("a-bad-one")
    with Image.open(page.with_name(plots.LEADERBOARD)) as image:
        shown = {colour for _, colour in image.convert("RGB").getcolors(maxcolors=1 << 20)}
    for kind in ("shipped", "trained", "baseline", "paper"):
        assert tuple(bytes.fromhex(COLOURS[kind][1:])) in shown, kind


def test_without_a_detector_on_test_there_is_no_plot(tmp_path):
    keep(tmp_path, "TF-IDF, all", 20, kind="baseline")
    keep(tmp_path, "on-validation", 0, split="validation")
    assert plots.leaderboard(results.published(tmp_path)) == []
