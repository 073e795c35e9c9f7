"""The code of the pages in `docs/production` runs."""

import http.server
import json
import threading
import urllib.error
import urllib.request

import pytest

import keras_transfer as kt
from tests.pages import DOCS, few_questions, run_page
from tools.page_outputs import BLOCK


@pytest.mark.slow
def test_the_script_in_the_page_on_serving_runs(tmp_path, monkeypatch, small_minilm):
    monkeypatch.chdir(tmp_path)
    few_questions(monkeypatch, 12)
    names = run_page("production/serving.md")
    assert (tmp_path / "served" / "questions" / "1" / "saved_model.pb").exists()
    assert set(names["table"]["label"]) <= set(names["data"].label_names) and len(names["table"]["id"]) == 2
    answers = list(asked(monkeypatch, {"texts": ["Who wrote Hamlet?"]}, {"texts": "one"}, {"texts": []}, ["a list"]))
    assert [status for status, _ in answers] == [200, 400, 400, 400]
    assert set(answers[0][1]) == {"label", "label_id", "probabilities"}
    assert all("Expected" in answer["error"] for _, answer in answers[1:])


def asked(monkeypatch, *requests):
    """Yields the status and the answer of the page's server to each request, on a free port."""
    page = (DOCS / "production/serving.md").read_text("utf-8")
    [code] = [match["code"] for match in BLOCK.finditer(page) if "serve_forever" in match["code"]]
    with monkeypatch.context() as patch:
        patch.setattr(http.server.HTTPServer, "serve_forever", lambda server: server.server_close())
        exec(code.replace("8000", "0"), names := {})
    with http.server.HTTPServer(("localhost", 0), names["Handler"]) as server:
        for request in requests:
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            url = f"http://localhost:{server.server_port}"
            try:
                response = urllib.request.urlopen(url, json.dumps(request).encode())
            except urllib.error.HTTPError as error:
                response = error
            with response:
                yield response.status, json.loads(response.read())
            thread.join()


@pytest.mark.slow
def test_the_script_in_the_page_on_scikit_learn_runs(tmp_path, monkeypatch, small_minilm, eagerly):
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install scikit-learn")
    whole = few_questions(monkeypatch, 12, "train")
    names = run_page("production/scikit_learn.md")
    assert names["search"].best_estimator_.model_.label_names == whole.label_names


@pytest.mark.docs
def test_the_script_in_the_page_on_commands_writes_two_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page("production/commands.md")
    for name, count in {"questions.csv": 576, "test.csv": 144}.items():
        table = kt.datasets.read_table(name, "question", label_column="kind")
        assert len(table.texts) == count and set(table.labels) == {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}
