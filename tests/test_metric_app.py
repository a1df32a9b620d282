"""The metric page, served to an API client."""

import json
import os

import pytest
from helpers import processes

from contradiction.paths import METRIC

ASK = """
import json, sys
sys.path.insert(0, {folder!r})
import app
from gradio_client import Client
from gradio_client.exceptions import AppError
page = app.build_page()
_, url, _ = page.launch(server_name="127.0.0.1", quiet=True, prevent_thread_lock=True)
client, answers = Client(url, verbose=False), []
for question in {questions!r}:
    try:
        answers.append([table["data"] for table in client.predict(*question, 200, api_name="/score")])
    except AppError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Serves the page in a separate process and sends all questions. Returns the tables, or the error messages."""

    def call(*questions):
        home = tmp_path_factory.mktemp("home")
        env = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False"}
        done = processes.run(ASK.format(folder=str(METRIC), questions=questions), cwd=home, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return call


def test_the_page_scores_pasted_labels_and_explains_refusals(ask):
    scored, persona, *refused = ask(
        ("4-class", "0\nhistory\n\n3,2\n", "non-contradiction，3,0 , 2", ""),
        ("persona-grouped", "0,1,2,3", "0,1,2,3", "0,0,0,0"),
        ("4-class", "0,1", "0,hist", ""),
        ("4-class", "0,1,2", "0,,2", ""),
        ("4-class", " \n", "", ""),
        ("2-class", "0,1", "0,1", "0,1,1"),
    )
    summary, classes, confusion, comparison = scored
    assert [row[:3] for row in summary] == [
        ["4-class", "accuracy", 75.0],
        ["4-class", "macro-F1", 77.8],
        ["merged to 2-class", "accuracy", 75.0],
        ["merged to 2-class", "macro-F1", 73.3],
    ]
    assert all(low <= value <= high for _, _, value, low, high in summary)
    assert classes[3] == ["history", 100.0, 50.0, 66.7, 2]
    assert confusion[3] == ["history", 1, 0, 0, 1]
    assert comparison == []
    assert [row[:3] for row in persona[3]] == [["persona", "accuracy", 75.0], ["persona", "macro-F1", 90.0]]
    expected = ("predictions[1] is 'hist'", "predictions[1] is ''", "empty", "3 baseline_predictions")
    assert [part in message for part, message in zip(expected, refused, strict=True)] == [True] * 4
