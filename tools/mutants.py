"""Mutation testing: change the package in a few random places, one at a time, and count the changes that tests notice.

    pip install -e .[test,jax]
    python tools/mutants.py --baseline --results mutants.jsonl

Each mutant is a copy of the repository in a temporary folder with one change in one function. Only the tests of the
mutated file's room run against it, and they stop at the first failure. A mutant whose tests fail is killed; one whose
tests pass survives. A run that ends by a signal or with an internal error of pytest is broken: it says nothing about
the tests, is neither killed nor survived, and is listed. Read the survivors at the end: each one is either an untested
behaviour or a change that makes no difference. Run the command again to resume: mutants that are already in the results
file are not run twice. The tests find real data in the folder that KERAS_TRANSFER_DATA names (an absolute path);
without it, tests that need real data are skipped.

Run an older test suite on the mutants that survived, then run the tests on another backend too:

    python tools/mutants.py --survivors-of mutants.jsonl --tests-from ../older --results older.jsonl
    python tools/mutants.py --survivors-of mutants.jsonl --also "KERAS_BACKEND=jax:-m core" --results jax.jsonl
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import difflib
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from mutations import KINDS, Mutant, choose

# Names that are not copied: version control, virtual environments, caches, build products.
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "quickstart_model")
LARGE = 2**20  # Bytes. The copies link to larger files.

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]


def main(arguments=None):
    """Runs mutation testing from the command line."""
    args = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        # Every mutant is a copy of this snapshot, because the repository may change during a long run.
        tree = pathlib.Path(folder).resolve() / "tree"
        copy_tree(args.tree, tree, args.tests_from)
        if args.survivors_of:
            mutants = survivors(read(args.survivors_of))
            for mutant in mutants:
                mutant.apply(read_source(tree, mutant))  # raises an error now instead of during the run
        else:
            mutants = choose(tree, args.package, args.count, args.seed, args.kinds, args.only)
        if not mutants:
            print("There is no mutant to run.")
            return
        if args.list:
            for number, mutant in enumerate(mutants, 1):
                print(f"{number:3}. {describe(mutant, tree)}")
            return
        results = {}
        if args.results and args.results.exists():
            cut_half_line(args.results)
            results = read(args.results)
        pending = [mutant for mutant in mutants if mutant not in results]
        if len(pending) < len(mutants):
            print(f"{len(mutants) - len(pending)} of {len(mutants)} mutants are in {args.results} already.")
        runner = Runner(tree, args.package, args.pytest_args, args.environment, args.also, args.timeout, args.memory)
        with stopping(runner, args.jobs) as executor:
            if args.baseline:
                check_baseline(runner, executor, pending)
            runs = {executor.submit(runner.run, mutant): mutant for mutant in pending}
            for run in concurrent.futures.as_completed(runs):
                mutant = runs[run]
                result = results[mutant] = run.result()
                if args.results:
                    with args.results.open("a") as file:
                        file.write(json.dumps({**dataclasses.asdict(mutant), **result}) + "\n")
                number = mutants.index(mutant) + 1
                print(f"{number:3}. {describe(mutant, tree)}  {label(result)}  {result['seconds']:.0f} s", flush=True)
        print(report({mutant: results[mutant] for mutant in mutants}, tree))


def parse(arguments):
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    add = parser.add_argument
    add("--count", type=int, default=30, help="how many mutants; defaults to 30")
    add("--seed", type=int, default=0, help="the same seed makes the same mutants of the same source; defaults to 0")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="defaults to all, in equal numbers")
    add("--only", nargs="+", metavar="ROOM", help="mutate these rooms only")
    add("--list", action="store_true", help="print the mutants and run nothing")
    add(
        "--results",
        type=pathlib.Path,
        help="file to which a JSON line for each mutant is added; its mutants are skipped",
    )
    add("--survivors-of", type=pathlib.Path, help="results file whose survivors are the mutants of this run")
    add("--tests-from", type=pathlib.Path, help="repository whose `tests` folder and pytest settings are used")
    add("--pytest-args", type=shlex.split, default=[], help="arguments for pytest, as one string")
    add("--environment", type=pair, action="append", default=[], metavar="KEY=VALUE", help="variable for the tests")
    add(
        "--also",
        type=command,
        action="append",
        default=[],
        metavar="'KEY=VALUE ...:PYTEST ARGUMENTS'",
        help="run the survivors' tests again with these variables and arguments",
    )
    add("--baseline", action="store_true", help="check first that the tests of each room pass without a mutant")
    add("--jobs", type=int, default=2, help="mutants at once; defaults to 2")
    add("--timeout", type=float, default=900.0, help="seconds after which a run counts as killed; defaults to 900")
    add("--memory", type=int, default=0, help="GiB of data that each process may hold (Linux); defaults to no limit")
    add("--tree", type=pathlib.Path, default=REPOSITORY, help="repository to mutate; defaults to this one")
    add("--package", default="keras_transfer", help="its package; defaults to keras_transfer")
    args = parser.parse_args(arguments)
    if args.survivors_of and args.survivors_of == args.results:
        parser.error("--survivors-of and --results must be different files")
    args.environment = dict(args.environment)
    return args


def pair(text):
    key, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE. Received: {text!r}")
    return key, value


def command(text):
    environment, _, arguments = text.partition(":")
    return dict(map(pair, environment.split())), shlex.split(arguments)


def cut_half_line(path):
    """Removes an incomplete last line, which a run leaves if it is stopped while writing."""
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def read(path):
    """Returns `{mutant: result}` from a results file, without an incomplete last line."""
    results = {}
    text = path.read_text("utf-8")
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines) and not text.endswith("\n"):
                break
            raise
        mutant = Mutant(**{field.name: result.pop(field.name) for field in dataclasses.fields(Mutant)})
        results[mutant] = result
    return results


def survivors(results):
    return [mutant for mutant, result in results.items() if result["outcome"] == "survived"]


def read_source(tree, mutant):
    return (tree / mutant.file).read_bytes().decode()


@contextlib.contextmanager
def stopping(runner, jobs):
    """Yields an executor that ends its tests when the block ends early."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            raise


def check_baseline(runner, executor, mutants):
    """Stops the program if the tests of a mutated room fail, or take too long, without a mutant."""
    rooms = {mutant.room: mutant for mutant in reversed(mutants)}
    results = executor.map(lambda mutant: runner.run(mutant, baseline=True), rooms.values())
    for room, result in zip(rooms, results):
        if result["outcome"] != "survived":
            raise SystemExit(f"The tests of {room or 'top'} must pass without a mutant. Received: {result['by']}")
        print(f"{room or 'top'}: its tests pass without a mutant  {result['seconds']:.0f} s", flush=True)


# === Report ===


def describe(mutant, tree):
    """Returns a mutant in one line, with the whole source line for a constant, which says little by itself."""
    line = read_source(tree, mutant).split("\n")[mutant.line - 1].strip()
    return f"{mutant}  in: {line}" if mutant.kind == "constant" else str(mutant)


def label(result):
    names = {"survived": "SURVIVED", "killed": "killed by", "timeout": "killed by", "broken": "BROKEN by"}
    return f"{names[result['outcome']]} {result['by']}".strip()


def report(results, tree):
    """Returns the fraction of killed mutants per room and in total, the broken runs, and a diff of each survivor."""
    rooms = collections.defaultdict(list)
    for mutant, result in results.items():
        rooms[mutant.room or "top"].append(result["outcome"])
    lines = [f"{room:16}{killed(rooms[room])}" for room in sorted(rooms)]
    outcomes = [result["outcome"] for result in results.values()]
    lines += [f"{'all':16}{killed(outcomes)}, {outcomes.count('timeout')} of them by the time limit"]
    broken = [mutant for mutant, result in results.items() if result["outcome"] == "broken"]
    if broken:
        lines += ["", f"Broken runs, which are not counted: {len(broken)}"]
        lines += [f"{describe(mutant, tree)}  {results[mutant]['by']}" for mutant in broken]
    lines += ["", f"Survivors: {len(survivors(results))}"]
    for mutant in survivors(results):
        text = read_source(tree, mutant)
        diff = difflib.unified_diff(text.splitlines(), mutant.apply(text).splitlines(), n=1, lineterm="")
        lines += ["", f"{mutant.file}:{mutant.line}  {results[mutant]['by']}".rstrip(), *list(diff)[3:]]
    return "\n".join(["", *lines])


def killed(outcomes):
    total = len(outcomes) - outcomes.count("broken")
    count = total - outcomes.count("survived")
    return f"{count} of {total} killed" + (f" ({count / total:.0%})" if total else "")


# === Running tests ===


class Runner:
    """Runs the tests of mutants in copies of a tree. `stop` ends the tests that are still running."""

    def __init__(self, tree, package, pytest_args, environment, also, timeout, memory):
        self.tree, self.package, self.timeout, self.memory = tree, package, timeout, memory
        self.commands = [({}, []), *also]
        self.pytest_args, self.environment = pytest_args, {**os.environ, **environment}
        self.processes, self.stopped = set(), False

    def run(self, mutant, baseline=False):
        """Returns `{"outcome", "by", "seconds"}`. With `baseline`, the tests run on the unchanged package."""
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            folder = pathlib.Path(folder).resolve()
            copy_tree(self.tree, folder / "tree")
            path = folder / "tree" / mutant.file
            if not baseline:
                path.write_bytes(mutant.apply(path.read_bytes().decode()).encode())
            survived = []
            for environment, arguments in self.commands:
                outcome, by = self._pytest(folder, tests_of(mutant, folder / "tree"), environment, arguments)
                if outcome != "survived":
                    by = " ".join([*(f"{key}={value}" for key, value in environment.items()), *arguments, by])
                    break
                survived.append(by)
            else:
                by = min(survived)  # "" sorts before "no tests", which remains only if no command had any
        return {"outcome": outcome, "by": by, "seconds": round(time.perf_counter() - start, 1)}

    def _pytest(self, folder, tests, environment, arguments):
        if not tests:
            return "survived", "no tests"
        (folder / "tmp").mkdir(exist_ok=True)
        root = folder / "tree"
        paths = os.pathsep.join(filter(None, [str(root), self.environment.get("PYTHONPATH")]))
        environment = {**self.environment, **environment, "PYTHONPATH": paths, "TMPDIR": str(folder / "tmp")}
        self._check_import(root, environment)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
        command += [*self.pytest_args, *arguments, *tests]
        with (folder / "output").open("w+", errors="replace") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, cwd=root, env=environment, start_new_session=True, **streams)
            self.processes.add(process)
            try:
                if self.stopped:
                    kill(process)
                if self.memory and hasattr(resource, "prlimit"):  # Linux only
                    with contextlib.suppress(ProcessLookupError):
                        resource.prlimit(process.pid, resource.RLIMIT_DATA, (self.memory * 2**30,) * 2)
                code = process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                kill(process)
                return "timeout", f"the time limit of {self.timeout:g} s"
            finally:
                self.processes.discard(process)
            output.seek(0)
            return verdict(code, output.read())

    def _check_import(self, root, environment):
        """Checks that Python imports the copy and not an installed package."""
        script = f"import importlib.util; print(importlib.util.find_spec({self.package!r}).origin)"
        done = subprocess.run([sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, text=True)
        expected = root / self.package / "__init__.py"
        if done.returncode or pathlib.Path(done.stdout.strip()).resolve() != expected:
            raise SystemExit(f"The tests must import {expected}. Received: {done.stdout.strip() or done.stderr}")

    def stop(self):
        self.stopped = True
        for process in list(self.processes):
            kill(process)


def kill(process):
    """Ends a process that has not been waited for, and the processes that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def verdict(code, output):
    """Returns `(outcome, by)` from pytest's exit status, which is negative after a signal, and its output."""
    if code < 0:
        return "broken", f"signal {-code}"
    if code == 3:
        return "broken", "an internal error of pytest"
    if code in (0, 5):  # 5: no test was selected
        return "survived", "" if code == 0 else "no tests"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", output, re.MULTILINE)
    if failed:
        return "killed", failed[1]
    if code == 4 and "while loading conftest" not in output:
        raise SystemExit(f"pytest did not accept its arguments:\n{output[-2000:]}")
    return "killed", f"exit status {code}"


def tests_of(mutant, tree):
    """Returns the test files of a mutant's room, first those whose names have words of the mutated module."""
    module = pathlib.PurePosixPath(mutant.file).stem.strip("_")
    folder = tree / "tests" / mutant.room

    def order(path):
        shared = set(module.split("_")) & set(path.stem.split("_"))
        return not path.stem.startswith(f"test_{module}"), -len(shared), path

    files = folder.rglob("test_*.py") if mutant.room else folder.glob("test_*.py")
    return [path.relative_to(tree).as_posix() for path in sorted(files, key=order)]


def copy_tree(tree, target, tests_from=None):
    """Copies a repository. With `tests_from`, takes the tests and their settings from another one."""
    shutil.copytree(tree, target, ignore=NOT_COPIED, copy_function=copy_file)
    for name in ("tests", "conftest.py", "pyproject.toml") if tests_from else ():
        path = target / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if (tests_from / name).is_dir():
            shutil.copytree(tests_from / name, path, ignore=NOT_COPIED, copy_function=copy_file)
        elif (tests_from / name).exists():
            shutil.copy2(tests_from / name, path)


def copy_file(source, target):
    if os.path.getsize(source) > LARGE and not source.endswith(".py"):
        os.symlink(os.path.realpath(source), target)
    else:
        shutil.copy2(source, target)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the tests too
    main()
