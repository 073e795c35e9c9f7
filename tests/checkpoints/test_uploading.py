"""Uploads to the hub, with a stand-in for `huggingface_hub.HfApi` that checks its calls against the real signatures."""

import inspect
import pathlib
import sys
import types

import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer.checkpoints import ModelCard, push_to_hub
from keras_transfer.distribute import processes
from tests.checkpoints.test_model_card import card_of, classifier
from tests.errors import check_errors

hub = pytest.importorskip("huggingface_hub", reason="needs huggingface-hub")


REAL = hub.HfApi


class Api:
    """What a test sees of the hub: the calls, and a repository in a folder."""

    def __init__(self, folder):
        self.folder, self.calls, self.refuses = folder, [], None

    def __call__(self, token=None):
        self.token = token
        return self

    def __getattr__(self, name):
        real = inspect.signature(getattr(REAL, name))

        def call(*args, **kwargs):
            bound = real.bind(self, *args, **kwargs).arguments
            self.calls.append((name, {key: value for key, value in bound.items() if key != "self"}))
            return getattr(self, f"_{name}")(bound)

        return call

    def _create_repo(self, bound):
        if self.refuses is not None:
            raise self.refuses
        return types.SimpleNamespace(repo_id=bound["repo_id"])

    def _whoami(self, bound):
        return {"name": "me"}

    def _create_branch(self, bound):
        pass

    def _file_exists(self, bound):
        return (self.folder / bound["filename"]).exists()

    def _hf_hub_download(self, bound):
        return str(self.folder / bound["filename"])

    def _upload_folder(self, bound):
        source = pathlib.Path(bound["folder_path"])
        for path in source.iterdir():
            if path.is_file() and not any(path.match(pattern) for pattern in bound["ignore_patterns"]):
                (self.folder / path.name).write_bytes(path.read_bytes())
        return types.SimpleNamespace(commit_url="https://hub/commit/1")


@pytest.fixture
def api(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    found = Api(tmp_path / "there")
    monkeypatch.setattr(hub, "HfApi", found)
    return found


def test_a_task_is_uploaded_with_its_card(api):
    model = classifier()
    url = model.push_to_hub("me/reviews", private=True, token="hf_x", card=ModelCard(license="mit"))
    assert (url, api.token) == ("https://hub/commit/1", "hf_x")
    assert [name for name, _ in api.calls] == ["create_repo", "file_exists", "upload_folder"]
    assert api.calls[0][1] == {"repo_id": "me/reviews", "private": True, "repo_type": "model", "exist_ok": True}
    assert not pathlib.Path(api.calls[-1][1]["folder_path"]).exists()  # a temporary folder
    again = kt.tasks.TextClassifier.from_pretrained(api.folder)
    assert again.label_names == model.label_names
    front, text = card_of(api.folder)
    assert front["license"] == "mit"
    assert text.startswith("\n<!--") and "# reviews\n" in text
    assert "from_pretrained('hf://me/reviews')" in text
    assert "AutoTokenizer.from_pretrained('me/reviews')" in text


def test_a_branch_and_a_message_can_be_chosen(api):
    classifier().push_to_hub("reviews", revision="trial", commit_message="Second trial")
    assert (
        "create_branch",
        {"repo_id": "me/reviews", "branch": "trial", "repo_type": "model", "exist_ok": True},
    ) in api.calls
    upload = api.calls[-1][1]
    assert (upload["revision"], upload["commit_message"]) == ("trial", "Second trial")
    text = card_of(api.folder)[1]
    assert "from_pretrained('hf://me/reviews@trial')" in text  # With the user's name, which loading requires.
    assert "AutoTokenizer.from_pretrained('me/reviews', revision='trial')" in text


def test_an_edited_card_on_the_hub_is_kept_and_a_generated_one_is_replaced(api, caplog):
    model = classifier()
    model.push_to_hub("me/reviews")
    model.push_to_hub("me/reviews", card=ModelCard(license="mit"))
    assert card_of(api.folder)[0]["license"] == "mit" and not caplog.text
    (api.folder / "README.md").write_text("My own card.")
    model.push_to_hub("me/reviews")
    assert (api.folder / "README.md").read_text() == "My own card."
    assert "README.md of me/reviews was not written by keras_transfer, or was edited, and is kept" in caplog.text


def test_a_folder_is_uploaded_without_the_state_of_its_run(api, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("model.keras", "README.md", "run.json", ".lock"):
        (folder / name).write_text("My own file.")
    push_to_hub(folder, "me/reviews")
    assert sorted(path.name for path in api.folder.iterdir()) == ["README.md", "model.keras"]


@pytest.mark.parametrize(("index", "url"), [(0, "https://hub/commit/1"), (1, "")])
def test_of_several_processes_only_the_first_one_uploads(index, url, api, monkeypatch):
    model = classifier()
    monkeypatch.setattr(processes, "processes_of", lambda model=None: (index, 2))
    monkeypatch.setattr(processes, "gather", lambda values, model=None: np.concatenate([values, values]))
    assert model.push_to_hub("me/reviews") == url
    assert ("upload_folder" in dict(api.calls)) == (index == 0)
    if index == 0:
        assert list(api.folder.iterdir())
    else:
        assert not api.calls


def test_what_the_hub_refuses_is_one_error(api):
    api.refuses = hub.errors.HfHubHTTPError.__new__(hub.errors.HfHubHTTPError)
    api.refuses.args = ("403 Forbidden\nmore",)
    with pytest.raises(RuntimeError, match=r"to 'me/reviews'.*`hf auth login`\). Received: HfHubHTTPError: "):
        classifier().push_to_hub("me/reviews")


def test_a_missing_package_is_one_error_before_anything_is_written(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="Run `pip install huggingface-hub`"):
        classifier().push_to_hub("me/reviews")


test_each_mistake_is_one_clear_error = check_errors(
    (lambda tmp_path: push_to_hub(tmp_path / "none", "me/x"), FileNotFoundError, "a folder with a model's files"),
    (lambda: push_to_hub(classifier(), "me/x"), "call its method `push_to_hub`. Received: folder=<TextClassifier"),
    (lambda: classifier().push_to_hub("hf://me/x"), "Did you mean 'me/x'? Received: repo_id='hf://me/x'"),
    (lambda: classifier().push_to_hub("a/b/c"), "`repo_id` must be 'name' or 'organization/name'"),
)
