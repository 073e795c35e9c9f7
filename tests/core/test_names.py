"""Names of other libraries' arguments: an error that says what to pass instead, before weights are loaded."""

import functools
import inspect
import pickle
import re

import pytest

import keras_transfer
from keras_transfer import (
    adaptation,
    checkpoints,
    datasets,
    encoders,
    experiments,
    layers,
    losses,
    metrics,
    serving,
    tasks,
    text,
    wrappers,
)
from keras_transfer.adaptation.adapters.adapters import get_adapters
from keras_transfer.callbacks import ChainThaw, GradualUnfreezing
from keras_transfer.core.names import equivalent, tables_of_names
from keras_transfer.optimizers import FusedAdamW
from keras_transfer.optimizers.schedules import OneCycle, WarmupCosine
from tests.checkpoints.folders import write_config
from tests.errors import check_errors
from tests.tasks import tiny

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16}


def assert_hint(function, *parts):
    with pytest.raises((TypeError, ValueError)) as error:
        function()
    for part in parts:
        assert part in str(error.value)


@pytest.fixture
def folder(tmp_path):
    """A folder without weights: reading them would be another error."""
    return write_config(tmp_path / "bert")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num_labels", "Pass `num_classes=...`, or `label_names=[...]`"),
        ("id2label", "Pass `label_names=[...]`"),
        ("max_length", "Pass `sequence_length=...`"),
        ("max_seq_length", "Pass `sequence_length=...`"),
        ("num_clases", "Did you mean 'num_classes'?"),
    ],
)
def test_from_pretrained_refuses_an_unknown_argument_before_it_loads_weights(name, hint, folder):
    assert_hint(
        lambda: tasks.TextClassifier.from_pretrained(folder, **{name: 3}),
        f"`TextClassifier.from_pretrained` has no argument `{name}`. {hint}",
        f"Received: {name}=3",
    )


@pytest.mark.parametrize(
    ("name", "hint"), [("hidden_dropout_prob", "Pass `dropout=...`"), ("drop_out", "Did you mean 'dropout'?")]
)
def test_the_encoder_refuses_an_unknown_argument_before_it_loads_weights(name, hint, folder):
    for function in (encoders.Encoder.from_pretrained, encoders.BertEncoder.from_pretrained):
        assert_hint(lambda function=function: function(folder, **{name: 0.0}), f"no argument `{name}`", hint)
    assert_hint(
        lambda: tasks.MaskedLM.from_pretrained(folder, head="new", preprocessor=None, encoder={name: 0.0}), name, hint
    )


def test_constructors_explain_the_names_of_other_libraries():
    encoder = encoders.BertEncoder(12, **SIZES)
    assert_hint(
        lambda: tasks.TextClassifier(encoder, num_labels=2), "`TextClassifier` has no argument `num_labels`. Pass"
    )
    assert_hint(
        lambda: tasks.TextClassifier(encoder, labels=["a", "b"]), "no argument `labels`", "Pass `label_names=sorted("
    )
    assert_hint(lambda: encoders.BertEncoder(12, **SIZES, hidden_act="gelu"), "`hidden_act`. Pass `activation=...`")
    assert_hint(lambda: adaptation.LoRA(lora_alpha=16), "`LoRA` has no argument `lora_alpha`. Pass `alpha=...`")
    assert_hint(lambda: get_adapters("lora:lora_alpha=16"), "Unknown argument of 'lora'. Pass `alpha=...`")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("min_length", "Pass `min_new_tokens=...`, which does not count the tokens of the prompt"),
        ("temperature", "generation.TopP(0.9, temperature=0.7)"),
        ("eos_token_id", "Pass `end_token=...`"),
        ("batchsize", "Did you mean 'batch_size'?"),
    ],
)
def test_generate_explains_the_names_of_transformers(name, hint):
    model = tasks.CausalLM(
        encoders.TransformerEncoder(12, num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, causal=True)
    )
    assert_hint(lambda: model.generate([[3]], **{name: 4}), f"`CausalLM.generate` has no argument `{name}`.", hint)


def test_the_length_of_a_preprocessor_has_one_name(folder):
    assert_hint(lambda: checkpoints.load_preprocessor(folder, max_length=8), "Pass `sequence_length=...`")


def classifier():
    return tiny.classifier(label_names=["a", "b"])


def compiled():
    model = classifier()
    model.compile()
    return model


def embedder():
    return tasks.TextEmbedder(tiny.encoder(), tiny.preprocessor())


test_an_argument_of_another_library_is_one_error_that_names_the_function_and_what_it_accepts = check_errors(
    (
        lambda: compiled().fit(["a"], [0], lr=1.0),
        "`TextClassifier.fit` has no argument `lr`. It belongs",
    ),
    (lambda: compiled().fit(["a"], [0], num_train_epochs=1), "Pass `epochs=...`. Received: num_train_epochs=1"),
    (lambda: compiled().fit(["a"], [0], foo=1), "`TextClassifier.fit` has no argument `foo`. Received: foo=1"),
    (lambda: compiled().fit(["a"], [0], validation_dat=1), "Did you mean 'validation_data'?"),
    (lambda: classifier().compile(learning_rate=1.0), "`TextClassifier.compile` ... Pass `optimizer=keras.optimizers"),
    (
        lambda: compiled().evaluate(["a"], [0], bs=1),
        "`TextClassifier.evaluate` has no argument `bs`. Pass `batch",
    ),
    (lambda: classifier().export("x", save_directory="y"), "no argument `save_directory`. Pass `folder=...`."),
    (lambda: serving.export(classifier(), save_directory="y"), "`export` has no argument `save_directory`."),
    (lambda: embedder().embed(["a"], convert_to_tensor=True), "`TextEmbedder.embed` ... The answer is a NumPy array."),
    (lambda: embedder().search(["a"], ["b"], top_k=3), "`TextEmbedder.search` has no argument `top_k`. Pass `k=...`."),
    (lambda: classifier().predict_labels(["a"], eval_batch_size=1), "`TextClassifier.predict_labels` has no argument"),
    (lambda: tasks.MaskedLM(tiny.encoder()).fill_mask(["a"], top_k=3), "`MaskedLM.fill_mask` ... Pass `k=...`."),
    (lambda: text.batches(["a"], tokenizer=None), "`batches` has no argument `tokenizer`. Pass `preprocessor=...`."),
    (lambda: datasets.read_table("x.csv", target="y"), "`read_table` ... Pass `label_column=...`."),
    (lambda: experiments.compare(classifier, {}, {}, num_seeds=2), "`compare` ... Pass `seeds=...`."),
    (lambda: text.BertPreprocessor(tiny.VOCABULARY, do_lower_case=1), "`BertPreprocessor` ... Pass `lowercase=...`."),
    (lambda: text.WordPreprocessor(vocab=["a"]), "`WordPreprocessor` has no argument `vocab`. Pass `vocabulary=...`."),
    (lambda: text.UnigramTokenizer(vocab=["a"]), "`UnigramTokenizer` has no argument `vocab`. Pass `vocabulary=...`."),
    (lambda: GradualUnfreezing(num_epochs=1), "`GradualUnfreezing` ... Pass `epochs=...`."),
    (lambda: ChainThaw(num_epochs=1), "`ChainThaw` has no argument `num_epochs`. Pass `epochs=...`."),
    (lambda: adaptation.IA3(target_modules=["query"]), "`IA3` has no argument `target_modules`. Pass `targets=...`"),
    (lambda: adaptation.LoRA(r=8), "`LoRA` has no argument `r`. Pass `rank=...`. Received: r=8"),
    (
        lambda: WarmupCosine(1e-3, 10, warmup_ratio=0.1),
        "`WarmupCosine` has no argument `warmup_ratio`.",
    ),
    (lambda: wrappers.KerasTransferClassifier(n_epochs=3), "`KerasTransferClassifier` ... Pass `epochs=...`."),
    (lambda: metrics.F1Score(pos_label=1), "`F1Score` has no argument `pos_label`. Pass `class_id=...`."),
    (lambda: layers.SequencePooling(pooling_mode="mean"), "`SequencePooling` ... Pass `pooling=...`, such as 'first'"),
    (
        lambda: encoders.BertEncoder(9, num_layers=1, num_heads=1, hidden_size=4),
        "`BertEncoder` ... Pass `hidden_dim=",
    ),
    (lambda: tasks.TextClassifier(tiny.encoder(), hidden_dropout_prob=0.1), "It is `dropout` of the encoder."),
    (lambda: WarmupCosine(1e-3), "missing 1 required positional argument: 'total_steps'"),
    (
        lambda: adaptation.fine_tune(classifier(), ["a"], [0], lr=1),
        "`fine_tune` has no argument `lr`. Pass `recipe=get_recipe(name, learning",
    ),
    error=TypeError,
)


def test_an_argument_that_would_be_refused_is_not_suggested(folder):
    with pytest.raises(TypeError) as error:
        tasks.TextEmbedder.from_pretrained(folder, label_names=["a"])
    assert "labels'" not in str(error.value)


def test_every_suggested_argument_is_one_that_the_function_has():
    for names, own, sentence in tables_of_names()["arguments"]:
        for name in names.split():
            found = equivalent(name, [own])
            assert found is not None and (found[0] in ("", own)), (name, own)
            suggested = re.findall(r"[Pp]ass `(\w+)=", found[1])
            assert found[0] or not suggested, (name, sentence)


def test_every_place_named_here_exists():
    for own in tables_of_names()["names"]:
        for path in re.findall(r"kt((?:\.\w+)+)", own):
            assert functools.reduce(getattr, path[1:].split("."), keras_transfer)


test_a_missing_name_is_an_error_that_says_what_to_use = check_errors(
    (
        lambda: keras_transfer.TextClassifier,
        "'keras_transfer' has no attribute 'TextClassifier'. Use `kt.tasks.Text",
    ),
    (lambda: keras_transfer.pipeline, "Use a task, such as `kt.tasks.TextClassifier.from_pretrained(source)"),
    (lambda: keras_transfer.schedules, "Use `kt.optimizers.schedules`."),
    (lambda: keras_transfer.taks, "Did you mean 'tasks'?"),
    (lambda: adaptation.LoraConfig, "'keras_transfer.adaptation' ... Use `kt.adaptation.LoRA`."),
    (lambda: datasets.load_dataset, "Use `kt.datasets.read_table`."),
    (lambda: tasks.TFRobertaForTokenClassification, "Use `kt.tasks.TokenClassifier`."),
    (lambda: text.BertTokenizerFast, "Use `kt.checkpoints.load_preprocessor`."),
    (
        lambda: classifier().predict_classes,
        "'TextClassifier' ... 'predict_classes'. Use `predict_labels`.",
    ),
    (lambda: classifier().tokenizer, "Use `preprocessor`."),
    (lambda: classifier().print_trainable_parameters, "Use `kt.adaptation.trainable_summary`."),
    (
        lambda: tasks.TextClassifier.from_preset,
        "'TextClassifier' ... 'from_preset'. Use `from_pretrained`.",
    ),
    (lambda: encoders.Encoder.from_preset, "Use `from_pretrained`."),
    (lambda: tiny.encoder().generate(["a"]), "Tasks write texts: `kt.tasks.Seq2SeqLM", "`generate` of BertEncoder"),
    error=AttributeError,
)


def test_tab_completion_shows_public_names_only():
    modules = [keras_transfer, *(getattr(keras_transfer, name) for name in keras_transfer.__all__)]
    for module in filter(inspect.ismodule, modules):
        assert dir(module) == sorted(module.__all__)


test_an_object_in_the_wrong_place_is_an_error_that_names_the_right_one = check_errors(
    (
        lambda: classifier().compile(GradualUnfreezing()),
        "is a callback, which belongs in `fit(",
    ),
    (lambda: classifier().compile(GradualUnfreezing), "is a callback"),
    (lambda: classifier().compile(OneCycle(1e-3, 10)), "is a schedule, which belongs in an optimizer"),
    (lambda: classifier().compile(loss=adaptation.L2SP(0.1)), "`loss` does not accept a L2SP. `L2SP` is a penalty"),
    (
        lambda: classifier().compile(metrics=[losses.SmoothedCrossentropy()]),
        "is a loss, which belongs in `compile(",
    ),
    (lambda: fitted(adaptation.L2SP(0.1)), "is a penalty, which belongs in `optimizers.LayerwiseOptimizer("),
    (lambda: fitted(FusedAdamW(1e-3)), "is an optimizer, which belongs in `compile(optimizer=...)`."),
    (
        lambda: adaptation.add_adapters(classifier(), adaptation.get_recipe("bert")),
        "is a recipe, which belongs",
    ),
    (lambda: adaptation.fine_tune(classifier(), ["a"], [0], recipe=adaptation.LoRA(8)), "is a kind of adapters"),
)


def fitted(callback):
    compiled().fit(["good", "bad"], [0, 1], callbacks=[callback])


def test_functions_keep_their_signatures_and_can_be_pickled():
    assert list(inspect.signature(adaptation.fine_tune).parameters)[:3] == ["model", "x", "y"]
    assert inspect.getfullargspec(layers.SequencePooling.__init__).args[:2] == ["self", "pooling"]
    assert pickle.loads(pickle.dumps(adaptation.fine_tune)) is adaptation.fine_tune
