"""Learning curves and single bots: tables of methods trained on part of the rows."""

import csv
import shutil
import statistics

import pytest
from helpers.grids import VALUES, evaluation, times
from matplotlib.figure import Figure
from sklearn.metrics import f1_score

from contradiction import cli
from contradiction.data.splits import load_split, of_bot
from contradiction.evaluation import results
from contradiction.inputs.views import VIEWS
from contradiction.io.files import read_json
from contradiction.labels import BOTS
from contradiction.methods.ngrams import LinearModel
from contradiction.training.augmentation import fraction_of, training_rows
from contradiction.training.recipe_files import load_recipe
from paper import panels, table
from paper import reproduce as reproduce_module
from paper.cells import cells_of
from paper.grid import finished
from paper.panels import configs_of, panels_of

OF_HALF = ", 50 % of the rows"
OF_FOUR, OF_TWO = "4-class-share0.5", "2-class-share0.5-of-4-class"  # the n-grams of half of the 4-class rows


@pytest.fixture(scope="module")
def curve(grid, options, tmp_path_factory):
    """A copy of the table 4 folder with a learning curve of two methods, one of them an artefact baseline."""
    out = shutil.copytree(grid, tmp_path_factory.mktemp("curve") / "table4")
    command = [
        "learning-curve", "--seeds", "23,42", "--train-fractions", "0.5,1",
        "--methods", "flatten,reply-only", "--configs", "4-class", "--out", out, *options,
    ]  # fmt: skip
    before = times(out)
    assert not cli.script(reproduce_module.reproduce)([*map(str, command)], standalone_mode=False)
    assert before.items() <= times(out).items()
    return out


def test_a_learning_curve_reuses_the_finished_cells_of_table_4_and_leaves_its_table_unchanged(grid, curve):
    new = {path.name for path in curve.glob("*.test.json")} - {path.name for path in grid.glob("*.test.json")}
    assert new == {
        f"{name}-seed{seed}.test.json"
        for name in ("flatten-4-class-tiny-share0.5", "reply-only-4-class-tiny-share0.5", "reply-only-4-class-tiny")
        for seed in (23, 42)
    } | {f"tfidf-flatten.{part}-seed{seed}.test.json" for part in (OF_FOUR, OF_TWO) for seed in (23, 42)}
    assert (curve / "table4.md").read_bytes() == (grid / "table4.md").read_bytes()


def test_the_learning_curve_matches_the_predictions_and_tests_adjacent_shares(curve):
    page = (curve / "learning-curve.md").read_text(encoding="utf-8")
    section = page.split("## 4-class,")[1].split("## 2-class")[0]
    for share, name in (("50 %", "-share0.5"), ("100 %", "")):
        kept = [evaluation(curve, f"flatten-4-class-tiny{name}-seed{seed}") for seed in (23, 42)]
        macro = [100 * one["metrics"]["macro_f1"] for one in kept]
        assert (
            f"| flatten, {share} of the rows | {statistics.mean(macro):.1f} ± {statistics.stdev(macro):.1f} |"
            in section
        )
    assert "| reply-only (artefact baseline), 50 % of the rows |" in section
    tested = [line.split(" | ")[0] for line in section.splitlines() if " – " in line.split(" | ")[0]]
    assert tested == [
        f"| {method}, 100 % of the rows – {method}, 50 % of the rows"
        for method in ("flatten", "reply-only (artefact baseline)")
    ] + [f"| flatten, {share} % of the rows – TF-IDF, all{part}" for share, part in ((50, OF_HALF), (100, ""))]
    for config, drawn in (("4-class", ""), ("2-class", ", drawn by 4-class labels")):
        assert f"\n| TF-IDF, all{OF_HALF}{drawn} | " in page.split(f"## {config},")[1].split("Differences")[0]
    assert "![Learning curve: the influence of the training rows: macro-F1](learning-curve.png)" in page


@pytest.mark.parametrize(
    ("configs", "values", "shares"),
    [
        (["4-class"], {}, (0.25, 0.5)),
        (["4-class"], {"context_negatives": 1}, (0.5, 1.0)),
        (["4-class", "2-class"], {}, (0.5, 1.0)),
        (["4-class", "2-class"], {}, (0.25, 0.5)),
        (["4-class", "4-class-grouped"], {"context_negatives": 1}, (0.5, 1.0)),
    ],
    ids=str,
)
def test_each_share_is_compared_with_n_grams_fitted_to_the_same_rows(
    sample_repo, encoders, tmp_path, shares, values, configs
):
    cells = cells_of(
        "learning-curve", data=sample_repo, seeds=(23, 42), train_fractions=shares, backbone=str(encoders / "tiny"),
        methods=["flatten"], configs=configs, values={**VALUES, **values},
    )  # fmt: skip
    whole = {config: panels.baselines_of(config, [], sample_repo, tmp_path, fit=True)[-1] for config in configs}
    # The predictions of the encoders do not matter here.
    done = {cell.name: {**whole[cell.config], "run": {"request": cell.request}} for cell in cells}
    beside = {
        config: panels.baselines_of(config, cells, sample_repo, tmp_path, fit=True) for config in configs_of(cells)
    }
    for panel in panels_of("learning-curve", cells, done, beside, bootstrap=2):
        of_four = panel.config.replace("2-class", "4-class")
        kinds = [("", "")] if panel.config in configs else []
        kinds += [(", 4-class merged", f", drawn by {of_four} labels")] if panel.config != of_four else []
        expected = [
            (f"flatten{part}{kind}", f"TF-IDF, all{f'{part}{drawn}' if share < 1 else ''}", 2)
            for kind, drawn in kinds
            for share in shares
            for part in [f", {100 * share:g} % of the rows"]
        ]
        assert [(test.name, test.against, test.seeds) for test in panel.tests if "TF-IDF" in test.against] == expected
        axes = Figure().subplots()
        table._draw_curves(axes, panel)
        curves = {f"n-grams of all utterances{drawn}" for _, drawn in kinds}
        assert curves <= set(axes.get_legend_handles_labels()[1])
        for baseline in beside[panel.config]:
            part = baseline["part"]
            drawn_by = part["subset"].partition(" of ")[2]
            rows = load_split(sample_repo, drawn_by or panel.config, "train")
            assert part["rows"] == len(fraction_of(rows, part["share"], part["seed"] or 0))
            assert part["subset"] == (f"{part['share']:g} of {drawn_by}" if part["share"] < 1 else "")


def test_n_grams_of_a_share_are_fitted_to_the_rows_of_the_encoder(curve, sample_repo):
    for seed in (23, 42):
        recipe = load_recipe(curve / "models" / f"flatten-4-class-tiny-share0.5-seed{seed}").with_changes(
            backbone="some/encoder"
        )
        read = set(training_rows(load_split(sample_repo, "4-class", "train"), recipe).rows["id"])
        for config, part in (("4-class", OF_FOUR), ("2-class", OF_TWO)):
            kept = read_json(curve / f"tfidf-flatten.{part}-seed{seed}.test.json")
            rows = [row for row in load_split(sample_repo, config, "train") if row["id"] in read]
            model = LinearModel(VIEWS["flatten"], class_weight="balanced").fit(rows, [row["label"] for row in rows])
            assert kept["predictions"] == model.predict(list(load_split(sample_repo, config, "test"))).tolist()
            assert kept["part"] == {
                "bot": None, "subset": "0.5 of 4-class", "share": 0.5, "seed": seed, "rows": len(read),
            }  # fmt: skip
    assert not [result for result in results.load(curve) if result["kind"] == "baseline" and "part" in result]


def test_the_csv_of_a_learning_curve_has_the_number_of_training_rows(curve, sample_repo):
    with (curve / "learning-curve.csv").open(encoding="utf-8", newline="") as file:
        row_counts = {int(row["rows"]) for row in csv.DictReader(file) if row["kind"] == "trained"}
    rows = len(load_split(sample_repo, "4-class", "train"))
    runs = [
        read_json(curve / "models" / f"flatten-4-class-tiny{name}-seed23" / "run.json") for name in ("-share0.5", "")
    ]
    assert [(run["request"]["recipe"]["data"]["train_fraction"], len(run["epochs"])) for run in runs] == [
        (0.5, 2),
        (1.0, 1),
    ]
    assert max(row_counts) == rows
    assert min(row_counts) == pytest.approx(rows / 2, abs=2)


def test_the_plot_of_a_learning_curve_has_a_curve_per_method_and_a_point_per_share(curve, sample_repo, encoders):
    assert (curve / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    cells = cells_of(
        "learning-curve", data=sample_repo, seeds=(23, 42), train_fractions=(0.5, 1.0), backbone=str(encoders / "tiny"),
        methods=["flatten", "reply-only"], configs=["4-class"], values=VALUES,
    )  # fmt: skip
    beside = {"4-class": panels.baselines_of("4-class", cells, sample_repo, curve, fit=False)}
    panel = panels_of("learning-curve", cells, finished(cells, curve), beside, bootstrap=10)[1]
    axes = Figure().subplots()
    table._draw_curves(axes, panel)
    drawn = dict(zip(axes.get_legend_handles_labels()[1], axes.get_legend_handles_labels()[0], strict=True))
    assert drawn.keys() == {"flatten", "reply-only", "n-grams of all utterances", "artefact baseline, all rows"}
    ngrams = sorted((line.rows, 100 * line.mean("macro_f1")) for line in panel.baselines if "all" in line.name)
    assert len(ngrams) == 2
    for drawn_values, expected in zip(
        drawn["n-grams of all utterances"].get_data(), zip(*ngrams, strict=True), strict=True
    ):
        assert list(drawn_values) == pytest.approx(expected)
    for drawn, method in zip(axes.containers, ("flatten", "reply-only"), strict=True):
        means = [100 * line.mean("macro_f1") for line in panel.methods if line.method == method]
        assert list(drawn.lines[0].get_ydata()) == pytest.approx(means)
        assert len(means) == 2


@pytest.fixture(scope="module")
def by_bot(grid, options, tmp_path_factory):
    """A copy of the table 4 folder in which flatten is also trained on the replies of one bot."""
    out = shutil.copytree(grid, tmp_path_factory.mktemp("bots") / "table4")
    command = ["bots", "--seeds", "23", "--methods", "flatten", "--configs", "4-class", "--out", out]
    assert not cli.script(reproduce_module.reproduce)([*map(str, command), *map(str, options)], standalone_mode=False)
    return out


def test_a_bot_is_excluded_from_training_and_checkpoint_selection(by_bot, sample_repo):
    for bot in BOTS:
        folder = by_bot / "models" / f"flatten-4-class-tiny-{bot}-seed23"
        run = read_json(folder / "run.json")
        rows, checks = (of_bot(load_split(sample_repo, "4-class", split), bot) for split in ("train", "validation"))
        assert 0 < len(rows) < len(load_split(sample_repo, "4-class", "train"))
        assert run["request"]["recipe"]["data"]["bot"] == bot
        # The number of steps is the same as on all rows.
        assert len(run["epochs"]) == round(len(load_split(sample_repo, "4-class", "train")) / len(rows))
        assert run["epochs"][0]["validation"]["n"] == len(checks)
        assert f"replies of {bot} alone" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_model_trained_on_one_bot_is_tested_on_each_bot(by_bot, sample_repo):
    page = (by_bot / "bots.md").read_text(encoding="utf-8")
    rows = load_split(sample_repo, "4-class", "test")
    for bot, other in (BOTS, BOTS[::-1]):
        tested = set(of_bot(rows, bot)["id"])
        section = page.split(f"## 4-class, test split, replies of {bot}, n = {len(tested)}")[1].split("\n## ")[0]
        for trained, name in ((bot, f"-{bot}"), (other, f"-{other}"), ("both", "")):
            kept = evaluation(by_bot, f"flatten-4-class-tiny{name}-seed23")
            chosen = [place for place, number in enumerate(kept["ids"]) if number in tested]
            plain = kept.get("argmax", kept)["predictions"]
            macro = f1_score(
                [kept["references"][place] for place in chosen], [plain[place] for place in chosen],
                labels=range(4), average="macro", zero_division=0,
            )  # fmt: skip
            assert f"| flatten, trained on {trained} | {100 * macro:.1f} |" in section
        pairs = [line.split(" | ")[0] for line in section.splitlines() if " – " in line.split(" | ")[0]]
        ngrams = [f"TF-IDF, all, trained on {bot}" for bot in BOTS] + ["TF-IDF, all"]
        assert pairs == [
            f"| flatten, trained on {trained} – flatten, trained on {bot}" for trained in (other, "both")
        ] + [
            f"| flatten, trained on {trained} – {beside}"
            for trained, beside in zip((*BOTS, "both"), ngrams, strict=True)
        ]
        assert all(f"\n| {beside} |" in section for beside in ngrams)
    with (by_bot / "bots.csv").open(encoding="utf-8", newline="") as file:
        bot_pairs = {(row["bot"], row["trained_on"]) for row in csv.DictReader(file) if row["kind"] == "trained"}
    assert bot_pairs == {(bot, trained) for bot in BOTS for trained in (*BOTS, "")}
    assert (by_bot / "bots.png").read_bytes().startswith(b"\x89PNG")


def test_a_bot_without_test_rows_has_no_panel(by_bot, sample_repo, encoders):
    cells = cells_of(
        "bots", data=sample_repo, methods=["flatten"], configs=["4-class"], seeds=[23], values=VALUES,
        backbone=str(encoders / "tiny"),
    )  # fmt: skip
    done = finished(cells, by_bot)
    assert done
    panels = panels_of("bots", cells, done, {}, dict.fromkeys(load_split(sample_repo, "4-class", "test")["id"], "eva"))
    assert {panel.bot for panel in panels} == {"eva"}
