"""Downloads resume where a connection was cut, are checked, and leave nothing under a name if the content is wrong."""

import hashlib
import http.server
import re
import threading

import pytest

from keras_transfer.datasets import download, downloading
from keras_transfer.datasets.sources import SOURCES
from tests.errors import check_errors

CONTENT = bytes(range(256)) * 1200  # several chunks
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends `server.content`, by ranges if `server.ranges`, and cuts a connection at each place in `server.cuts`."""

    def do_GET(self):
        server = self.server
        server.starts.append(self.headers["Range"])
        if server.status != 200:
            self.send_error(server.status)
            return
        start = 0
        if server.ranges and self.headers["Range"]:
            start = int(re.fullmatch(r"bytes=([0-9]+)-", self.headers["Range"])[1])
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        end = server.cuts.pop(0) if server.cuts else len(server.content)
        self.wfile.write(server.content[start:end])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(downloading, "WAIT_SECONDS", 0.0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.ranges, server.cuts, server.starts, server.status = CONTENT, True, [], [], 200
    server.url = f"http://127.0.0.1:{server.server_port}/data.json"
    source = {"advice": "Get it.", "url": server.url.removesuffix("data.json"), "files": {"data.json": SHA256}}
    monkeypatch.setitem(SOURCES, "squad1.1", source)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_goes_to_the_folder_of_keras_with_a_progress_bar_and_only_once(
    server, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    folder = download("squad1.1")
    assert folder == tmp_path / "datasets" / "keras_transfer" / "squad1.1"
    assert (folder / "data.json").read_bytes() == CONTENT and names(folder) == ["data.json"]
    assert f"{len(CONTENT)}/{len(CONTENT)}" in capsys.readouterr().out
    assert download("SQuAD1.1") == folder and len(server.starts) == 1


def test_a_connection_that_is_cut_resumes_where_it_stopped(server, tmp_path):
    server.cuts = [100_000, 100_000, 250_000]  # the second one without any new data
    folder = download("squad1.1", tmp_path / "new" / "folder")
    assert (folder / "data.json").read_bytes() == CONTENT and names(folder) == ["data.json"]
    assert server.starts == [None, "bytes=100000-", "bytes=100000-", "bytes=250000-"]


def test_an_interrupted_download_resumes_in_the_next_call(server, tmp_path):
    server.cuts = [100_000] * (1 + downloading.TRIES)
    with pytest.raises(OSError, match=r"Cannot download http.* Try again later, to resume after 100,000 bytes."):
        download("squad1.1", tmp_path)
    assert names(tmp_path) == ["data.json.part"]
    del server.starts[:]
    download("squad1.1", tmp_path)
    assert server.starts == ["bytes=100000-"] and (tmp_path / "data.json").read_bytes() == CONTENT


def test_a_host_without_ranges_sends_the_whole_file_again(server, tmp_path):
    server.ranges, server.cuts = False, [100_000]
    download("squad1.1", tmp_path)
    assert (tmp_path / "data.json").read_bytes() == CONTENT


def test_a_part_that_is_complete_already_is_only_checked(server, tmp_path):
    (tmp_path / "data.json.part").write_bytes(CONTENT)
    download("squad1.1", tmp_path)
    assert (tmp_path / "data.json").read_bytes() == CONTENT and names(tmp_path) == ["data.json"]


@pytest.mark.parametrize("content", [b"x" + CONTENT[1:], CONTENT + b"x", CONTENT[:-1]])
def test_a_wrong_checksum_is_an_error_that_leaves_nothing(server, tmp_path, content):
    server.content = content
    with pytest.raises(
        ValueError, match=rf"data.json.part must have the sha256 {SHA256}. .* Received: sha256='[0-9a-f]{{64}}'"
    ):
        download("squad1.1", tmp_path)
    assert names(tmp_path) == []


def test_a_part_of_another_file_is_an_error_that_leaves_nothing(server, tmp_path):
    (tmp_path / "data.json.part").write_bytes(b"x" * (len(CONTENT) + 1))
    with pytest.raises(ValueError, match="must have the sha256"):
        download("squad1.1", tmp_path)
    assert names(tmp_path) == []


def test_a_file_that_has_changed_is_an_error_and_stays(server, tmp_path):
    (tmp_path / "data.json").write_bytes(b"changed")
    with pytest.raises(ValueError, match=r"Remove .*data.json to download it again. Received: "):
        download("squad1.1", tmp_path)
    assert (tmp_path / "data.json").read_bytes() == b"changed" and not server.starts


@pytest.mark.parametrize("status, requests", [(404, 1), (503, downloading.TRIES)])
def test_a_host_that_refuses_is_asked_again_only_if_that_can_help(server, tmp_path, status, requests):
    server.status = status
    with pytest.raises(OSError, match=f"Cannot download .* Received: HTTP Error {status}"):
        download("squad1.1", tmp_path)
    assert len(server.starts) == requests and names(tmp_path) == []


test_an_unknown_dataset_and_one_that_must_be_fetched_by_hand_are_errors_that_help = check_errors(
    (lambda: download("squad2"), "Unknown dataset. Did you mean 'squad2.0'? ... Received: 'squad2'"),
    (lambda: download("imdb"), "Only squad1.1 and squad2.0 can be ... Get aclImdb_v1.tar.gz ... Received: 'imdb'"),
)


def test_each_source_says_where_to_get_the_data():
    for source in SOURCES.values():
        advice, checksums = source["advice"], source.get("files", {}).values()
        assert advice.startswith("Get ") and advice.endswith(".") and "http" in advice
        assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in checksums)


def test_the_checksum_of_the_squad_1_1_dev_set_is_the_published_one(data_dir):
    path = data_dir("squad1.1") / "dev-v1.1.json"
    checksums = [SOURCES["squad1.1"]["files"]["dev-v1.1.json"]]
    assert [hashlib.sha256(path.read_bytes()).hexdigest()] == checksums
