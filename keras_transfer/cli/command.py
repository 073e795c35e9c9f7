"""The command `keras-transfer`, which checks its arguments before it imports slow packages."""

import collections
import contextlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from keras_transfer.cli import ask, checks, labelled_texts, own_files, run_folder
from keras_transfer.cli.adapter_names import check_adapter
from keras_transfer.cli.parser import (
    ELECTRA_RATES,
    LENGTH,
    RATE_OF_CHECKPOINT,
    RATE_OF_LSTM,
    RATES,
    WINDOW,
    make_parser,
)
from keras_transfer.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status: 0, 1 after an error, 130 after Ctrl-C, or 128 plus another signal."""
    options = vars(make_parser(__version__).parse_args(arguments))
    command, traceback = options.pop("command"), options.pop("traceback")
    commands: dict[str, Callable[..., int | None]] = {
        "quickstart": _quickstart,
        "train": _train,
        "evaluate": _evaluate,
        "predict": _predict,
        "classify": _classify,
        "export": _export,
        "compare": _compare,
        "pretrain": _pretrain,
        "generate": _generate,
        "launch": _launch,
        "info": _info,
    }
    try:
        return commands[command](**options) or 0
    except BrokenPipeError:  # The reader of the output, such as `head`, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"keras-transfer {command}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if traceback:
            raise
        print(f"keras-transfer {command}: error: {_message(error, options)}", file=sys.stderr)
        return 1


def _message(error, options):
    """Returns the message of an error, with the names of arguments replaced by the names of options."""
    message = str(error)
    if "new_head" in options:
        message = message.replace('`head="new"`', "`--new-head`")
    for name in options:
        message = re.sub(rf"`{name}(=True)?`", f"`--{name.replace('_', '-')}`", message)
    if isinstance(error, (ValueError, OSError, ImportError)):
        return message
    return f"{type(error).__name__}: {message}\nTo see where it occurred, pass --traceback."


def _info(source):
    own = own_files.describe_own(source)
    if own is not None:
        print("\n".join(own))
        return
    checks.check_source(source)
    # No weights are loaded, so any backend works, and JAX is imported in a third of the time.
    if importlib.util.find_spec("jax") is not None:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    _import_package()
    from keras_transfer.cli.info import print_info

    print_info(source)


def _launch(script, arguments, workers):
    check(script, workers)
    return run(script, arguments, workers)


def _generate(model, prompts, max_new_tokens, sampler, seed):
    checks.check_source(model)
    if run_folder.is_unfinished(model) and not (pathlib.Path(model) / "config.json").exists():
        raise FileNotFoundError(
            f"The run is not finished. `keras-transfer pretrain` with the same settings continues it. Received: {model}"
        )
    _import_package()
    from keras_transfer.cli.texts import print_texts

    print_texts(model, prompts, max_new_tokens, sampler, seed)


def _pretrain(corpus, validation_corpus, encoder, size, vocabulary_size, output, overwrite, **options):
    checks.check_pretraining(corpus, validation_corpus, encoder, size, vocabulary_size, **options)
    if encoder is None:
        size, vocabulary_size = size or "tiny", vocabulary_size or 8000
    of_lstm = options["objective"] == "awd-lstm"
    rates = ELECTRA_RATES if options["objective"] == "electra" else RATES
    rate = RATE_OF_LSTM if of_lstm else rates[size] if size else RATE_OF_CHECKPOINT
    options["learning_rate"] = options["learning_rate"] or rate
    options["sequence_length"] = options["sequence_length"] or (WINDOW if of_lstm else LENGTH)
    if options["steps"] is None:
        options["epochs"] = options["epochs"] or 10
    options |= {"encoder": encoder, "size": size, "vocabulary_size": vocabulary_size}
    files = {"corpus": corpus, "validation_corpus": validation_corpus}
    if encoder is not None and os.path.realpath(encoder) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    settings = {**{name: run_folder.describe_files(paths) for name, paths in files.items()}, **options}
    run_folder.check_run(output, settings, overwrite)
    _import_package()
    from keras_transfer.cli.pretraining import run_pretraining

    paths = [[pathlib.Path(path) for path in paths] for paths in files.values()]
    stopped_by = run_pretraining(*paths, output, settings, overwrite, **options)
    return 128 + stopped_by if stopped_by else 0


def _compare(data, validation_data, test_data, text_column, label_column, results, markdown, plot, **options):
    form = _form(options)
    checks.check_comparison(results, markdown, plot)
    checks.check_training(**options)
    parts, label_names = labelled_texts.read_parts(data, validation_data, test_data, text_column, label_column, **form)
    _import_package()
    from keras_transfer.cli.comparison import run_comparison

    run_comparison(parts, label_names, results=results, markdown=markdown, plot=plot, **options)


def _export(model, output, pairs, overwrite, format, quantization, data, text_column, adapters, **limits):
    path, form = run_folder.find_model(model), _form(limits)
    checks.check_export(format, quantization, pairs, data, adapters, **limits)
    for name in adapters or ():
        check_adapter(path, name, "--adapters")
    checks.check_folder_to_write(output, overwrite)
    texts = data and labelled_texts.read_column(data, text_column, **form)
    _import_package()
    from keras_transfer.cli.exporting import run_export

    options = {"format": format, "quantization": quantization, "texts": texts, "adapters": adapters}
    run_export(path, output, pairs, overwrite, **options, **limits)


def _classify(model, texts, adapter):
    if ask.is_exported(model):
        check_adapter(model, adapter)
        ask.print_answers(texts, ask.answers_of(model, texts, adapter))
        return
    path, kind = _find_model(model, adapter)
    _import_package()
    from keras_transfer.cli.predictions import answer_texts

    ask.print_answers(texts, answer_texts(path, kind, texts, adapter))


def _predict(model, data, text_column, adapter, output, overwrite, workers, **form):
    path, kind = _find_model(model, adapter)
    table = labelled_texts.Table(data, [text_column], **form)
    [text_column] = table.columns
    checks.check_predictions(table, kind, output, overwrite, workers)
    _import_package()
    from keras_transfer.cli.predictions import run_predictions

    several = start(workers, _import_package) if workers > 1 else contextlib.nullcontext()
    with several as map_in_order:
        run_predictions(path, kind, table, text_column, output, map_in_order, adapter)


def _evaluate(model, data, text_column, label_column, adapter, **options):
    path, kind = _find_model(model, adapter)
    form = _form(options)
    checks.check_evaluation(kind, **options)
    texts, labels = labelled_texts.read_texts(data, text_column, label_column, kind, **form)
    _import_package()
    from keras_transfer.cli.predictions import run_evaluation

    run_evaluation(path, kind, data, texts, labels, adapter=adapter, **options)


def _train(task, data, validation_data, text_column, label_column, output, overwrite, **options):
    output = output or ("regressor" if task == "regression" else "classifier")
    form, trained = _form(options), run_folder.trained_model(options["encoder"])
    checks.check_training(**options, trained=trained)
    parts, label_names = labelled_texts.read_parts(data, validation_data, None, text_column, label_column, task, **form)
    columns = {"text_column": text_column, "label_column": _only(label_column), **form}
    if options["precision"] == "auto":  # A resumed run keeps the precision that it started with.
        _import_package()
        from keras_transfer.core.precision import recommended_precision

        precision = recommended_precision()
        print(precision)
        options["precision"] = precision.policy
    if trained is not None and os.path.realpath(trained.parent) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    settings = run_folder.describe(data, validation_data, task=task, **columns, **options)
    run_folder.check_run(output, settings, overwrite)
    _import_package()
    from keras_transfer.cli.training import run_training

    options |= {"multi_label": task == "multi-label", "trained": trained}
    stopped_by = run_training(parts, label_names, output, settings, overwrite, **options)
    return 128 + stopped_by if stopped_by else 0


def _quickstart(dataset, data_dir, output, epochs, batch_size, overwrite, **options):
    checks.check_quickstart(dataset, data_dir, output, epochs, batch_size, overwrite)
    _import_package()
    from keras_transfer.cli.quickstart import run_quickstart

    run_quickstart(dataset, data_dir, output, epochs=epochs, batch_size=batch_size, overwrite=overwrite, **options)


if __name__ == "__main__":
    sys.exit(main())

PATIENCE = 15  # The other processes have this number of seconds to end.

AHEAD = 2  # Number of parts to read ahead for each process.

_FAILED = []  # The error that `prepare` raised in this process.


def _form(options):
    """Removes the options that say how tables are read, and returns those that were given."""
    found = {name: options.pop(name, None) for name in ("separator", "encoding", "no_header", "label_separator")}
    return {name: value for name, value in found.items() if value}


def _only(names):
    return names[0] if isinstance(names, list) and len(names) == 1 else names


def _find_model(model, adapter):
    """Returns the path of a model, exported or not, which has these adapters, and what it predicts."""
    path = run_folder.find_model(model, exported=True)
    kind = None if path.is_dir() else run_folder.read_kind(path)
    check_adapter(path, adapter)
    if kind is not None:
        return path, kind
    _import_package()
    from keras_transfer.cli.exported import ExportedModel

    return path, ExportedModel(path, adapter).kind


def _import_package():
    """Imports TensorFlow without its log lines, which would precede the output, and then the package."""
    if os.environ.get("KERAS_BACKEND", "tensorflow") == "tensorflow":
        ask.import_tensorflow()
    package = sys.modules["keras_transfer"]
    if not hasattr(package, "__version__"):  # The console script has not run its `__init__.py`.
        package.__spec__.loader.exec_module(package)


def run(script, arguments, workers):
    """Runs a script in several processes, whose lines of output begin with the number of the process.

    The processes find each other through `TF_CONFIG`, which `keras_transfer.distribute.initialize` reads. The result is
    0, the status of the first process that failed, or 128 plus the number of the signal that ended it.
    """
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(workers)]
    children, lock = [], threading.Lock()
    with _forwarded_signals(children):
        for index in range(workers):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONUNBUFFERED": "1"}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
            command = [sys.executable, str(script), *arguments]
            children.append(subprocess.Popen(command, env=environment, start_new_session=True, **pipes))
        readers = [threading.Thread(target=_copy, args=(index, child, lock)) for index, child in enumerate(children)]
        for reader in readers:
            reader.start()
        status = _wait(children)
        for reader in readers:
            reader.join()
    return status


def _free_ports(count):
    """Returns the numbers of unused ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _copy(index, child, lock):
    """Prints the lines of a process."""
    for line in child.stdout:
        with lock:
            print(f"[{index}] {line}", end="" if line.endswith("\n") else "\n", flush=True)


def _wait(children):
    """Waits for all processes, stops the others if one fails, and returns the exit status."""
    codes = [None]
    while None in codes and not any(codes):
        time.sleep(0.1)
        codes = [child.poll() for child in children]
    if not any(codes):
        return 0
    failed = next(index for index, code in enumerate(codes) if code)
    others = [index for index, code in enumerate(codes) if code is None]
    code = codes[failed]
    ending = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with the exit status {code}"
    stopped = f" The processes {others} are stopped." if others else ""
    print(f"keras-transfer launch: process {failed} {ending}.{stopped}", file=sys.stderr, flush=True)
    for index in others:
        _stop(children[index])
    return 128 - code if code < 0 else code


def _stop(child):
    """Ends a process and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # It has ended by itself.
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):  # It ignores the signal, but cannot ignore the next one.
            child.wait(PATIENCE)
            return


@contextlib.contextmanager
def _forwarded_signals(children):
    """Passes Ctrl-C and SIGTERM on to the processes, so that they can write training checkpoints."""

    def forward(number, frame):
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check(script, workers):
    """Raises an error if the script does not exist, or if the number of processes is not positive."""
    if workers < 1:
        raise ValueError(f"`--workers` must be a positive integer. Received: {workers}")
    if not pathlib.Path(script).is_file():
        raise FileNotFoundError(f"The script must be a file. Received: {script}")


@contextlib.contextmanager
def start(workers, prepare):
    """Yields a function `(function, parts)` that calls a function in processes, which start when they are needed.

    It yields `(kept, function(argument))` for each part `(kept, argument)`, in order, and reads few parts ahead.
    Functions, arguments and results are pickled.

    Args:
        prepare: Function without arguments, which each process calls first. If it raises an error, so does the first
            part.
    """
    context = multiprocessing.get_context("spawn")  # TensorFlow does not work after a fork.
    executor = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(prepare,))

    def map_in_order(function, parts):
        parts, running = iter(parts), collections.deque()
        while True:
            for kept, argument in itertools.islice(parts, AHEAD * workers - len(running)):
                running.append((kept, executor.submit(_call, function, argument)))
            if not running:
                return
            kept, future = running.popleft()
            yield kept, future.result()

    try:
        yield map_in_order
    except BrokenProcessPool:
        raise ChildProcessError(
            "A process ended before it had predicted its texts, possibly because there was no memory left. Each has "
            f"a copy of the model. Pass fewer `--workers`. Received: --workers {workers}"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)


def _begin(prepare):
    """Lets only the first process handle Ctrl-C, and ends this process when the first one ends for any reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    try:
        prepare()
    except Exception as error:  # A `BrokenProcessPool` would not contain this message.
        _FAILED.append(error)


def _call(function, argument):
    """Calls a function, or raises the error of the preparation."""
    if _FAILED:
        raise _FAILED[0]
    return function(argument)
