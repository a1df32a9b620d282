"""The statistics of the data set: Table 3 of the paper, the leak, and the split sizes."""

import pytest
from helpers.data_repo import COUNTS, NAMES, table_rows, write

pytestmark = pytest.mark.usefixtures("no_default_source")


def test_table_3_of_the_release(run, release, monkeypatch):
    monkeypatch.setenv("CDCONV_FILE", str(release))
    code, out, err = run("data", "stats")
    assert (code, err) == (0, "")
    rows = table_rows(out)
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


def test_stats_of_a_built_folder_are_those_of_its_raw_file(run, sample_repo):
    _, raw, warning = run("data", "stats", "--source", "sample")
    assert "not CDConv" in warning
    code, built, err = run("data", "stats", sample_repo)
    assert (code, err) == (0, "")
    assert {row for row in table_rows(raw) if "─" not in row} <= table_rows(built)
    assert any(row.startswith("crossed-long test ") for row in table_rows(built))


def test_stats_of_another_data_set_are_the_sizes_alone(run, copies, tmp_path):
    run("corpora", "build", "ocnli", "--source", copies / "ocnli", "--out", tmp_path / "ocnli")
    code, out, _ = run("data", "stats", tmp_path / "ocnli")
    assert code == 0 and "by category" not in out
    assert "nli validation 1 entailment 0, neutral 1, contradiction 0" in table_rows(out)
    write(tmp_path / "README.md", [b"# Models"])
    for arguments, message in (
        ([tmp_path / "none"], "no such file or folder; `cdconv data build"),
        ([tmp_path / "ocnli", "--source", "sample"], "leave one of them out"),
        ([tmp_path], "its card names no configs, so it is no data repo"),
    ):
        code, _, err = run("data", "stats", *arguments)
        assert code == 2 and message in err and err.count("\n") == 1
