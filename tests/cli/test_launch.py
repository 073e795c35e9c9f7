"""`keras-transfer launch`: several processes of a script, their output, and the end of all of them."""

import json
import os
import signal
import threading
import time

import pytest

from keras_transfer_command import main

SCRIPT = """
import json, os, pathlib, signal, sys, time
from keras_transfer_command import main
config = json.loads(os.environ["TF_CONFIG"])
index, count = config["task"]["index"], len(set(config["cluster"]["worker"]))
print(json.dumps([index, count, sys.argv[1:]]))
if sys.argv[1:] == ["wait"]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    pathlib.Path(__file__).with_name(f"ready-{index}").touch()
    time.sleep(60)
if sys.argv[1:] == ["fail"]:
    if index == 1:
        sys.exit(3)
    time.sleep(60)
if sys.argv[1:] == ["die"]:
    os.kill(os.getpid(), signal.SIGKILL)
print("the end, without a new line", end="")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_each_process_gets_its_number_and_the_arguments_and_its_lines_begin_with_it(script, capfd):
    assert main(["launch", "--workers", "3", script, "--epochs", "2"]) == 0
    lines = sorted(capfd.readouterr().out.splitlines())
    assert len(lines) == 6
    for index in range(3):
        end, start = sorted(line for line in lines if line.startswith(f"[{index}] "))[::-1]
        assert json.loads(start.removeprefix(f"[{index}] ")) == [index, 3, ["--epochs", "2"]]
        assert end == f"[{index}] the end, without a new line"


def test_all_processes_end_if_one_fails(script, capfd):
    assert main(["launch", "--workers", "2", script, "fail"]) == 3
    message = "process 1 failed with the exit status 3. The processes [0] are stopped."
    assert capfd.readouterr().err == f"keras-transfer launch: {message}\n"


def test_a_process_that_is_killed_has_the_status_of_the_signal(script, capfd):
    assert main(["launch", "--workers", "1", script, "die"]) == 128 + 9
    assert capfd.readouterr().err == "keras-transfer launch: process 0 was ended by SIGKILL.\n"


def test_signals_reach_all_processes(script, tmp_path, capfd):
    def send_when_both_wait():
        while len(list(tmp_path.glob("ready-*"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send_when_both_wait, daemon=True)
    thread.start()
    assert main(["launch", "--workers", "2", script, "wait"]) == 7
    assert {line[:3] for line in capfd.readouterr().out.splitlines()} == {"[0]", "[1]"}


def test_a_script_that_does_not_exist_is_an_error(capsys):
    assert main(["launch", "--workers", "2", "none.py"]) == 1
    assert capsys.readouterr().err.endswith("error: The script must be a file. Received: none.py\n")
