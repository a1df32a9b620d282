"""`cdconv probe run` before it calls a bot: the expected cost, and invalid options."""

import time

import pytest
from helpers.bot_server import Endpoint, serving


def test_a_dry_run_prints_the_cost_and_calls_nothing(tmp_path, run):
    with serving(Endpoint()) as endpoint:
        code, out, err = run("probe", "run", "--endpoint", endpoint.url, "--out", tmp_path / "run", "--dry-run")
    assert code == 0 and not endpoint.seen and not (tmp_path / "run").exists()
    assert "1,000 conversations, 3,200 calls" in err and len(out.splitlines()) == 10


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "name one bot"),
        (("--endpoint", "ftp://x"), "begins with http://"),
        (("--endpoint", "http://me:s3cret@127.0.0.1/v1"), "holds a password"),
        (("--endpoint", "http://127.0.0.1:9/v1", "--key-variable", "NO_SUCH_KEY"), "NO_SUCH_KEY"),
        (("--function", "os:getcwd", "--writer", "some-model"), "OPENAI_BASE_URL"),
        (("--command", "python 'bot.py"), "No closing quotation"),
        (("--triggers", "louder"), "trigger 'louder'"),
        (("--triggers", "persona"), "none is given"),
        (("--triggers", "short,short"), "none twice"),
        (("--threshold", "7"), "threshold '7'"),
    ],
)
def test_wrong_options_print_one_line(options, why, tmp_path, run, detect_model, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    code, _, err = run("probe", "run", "--out", tmp_path / "run", "--model", detect_model, *options)
    assert code == 2 and why in err and err.count("\n") <= 2 and "s3cret" not in err


def test_an_endpoint_that_nobody_serves_ends_the_run_at_once_and_nothing_is_written(tmp_path, run, detect_model):
    with serving(Endpoint()) as endpoint:
        pass
    begun = time.monotonic()
    options = ("--endpoint", endpoint.url, "--conversations", "10", "--quiet", "--model", detect_model)
    code, _, err = run("probe", "run", "--out", tmp_path / "run", *options)
    assert (code, err.count("\n"), list(tmp_path.iterdir())) == (2, 1, [])
    assert err.startswith(f"cdconv: {endpoint.url}/chat/completions: cannot be reached: ") and "refused" in err
    assert time.monotonic() - begun < 10  # its ten conversations would repeat their first call for more than a minute


def test_a_wrong_bot_is_found_before_the_detector_is_loaded(tmp_path, run):
    options = ("--out", tmp_path / "run", "--model", tmp_path / "nowhere")
    code, _, err = run("probe", "run", *options, "--function", "no_such_module:f")
    assert code == 2 and "it must be module:function" in err and "nowhere" not in err
    assert "nowhere" in run("probe", "run", *options, "--function", "os:getcwd")[2]
