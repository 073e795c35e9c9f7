"""`DialogueModel` learns replies from a persona and a history, and which of several replies is the right one."""

import keras
import numpy as np
import pytest

from keras_transfer.adaptation import freeze, layer_groups
from keras_transfer.checkpoints import CheckpointError
from keras_transfer.datasets import load_personachat
from keras_transfer.encoders import GPT2Encoder, TransformerEncoder
from keras_transfer.tasks import DialogueModel
from keras_transfer.tasks.generates import Generates
from keras_transfer.text import Packing, TokenPreprocessor, WordPieceTokenizer, dialogue_inputs
from tests.helpers import EAGER, save_and_load

VOCABULARY = ["[PAD]", "[UNK]", "<bos>", "<eos>", "<speaker1>", "<speaker2>", "[", "]", "hi", "who", "are", "you", "i"]
VOCABULARY += ["am", "bob"]
# Both what to reply and which reply is the right one can be learned from a few examples.
EXAMPLES = [(["i am bob"], ["hi", "hi", "who are you"], "i am bob", ["you"]), ([], ["hi"], "hi bob", ["are"])] * 2
SPECIAL = {"bos": 2, "eos": 3, "speakers": (4, 5), "ignored": -1}


def model(sequence_length=32, **options):
    keras.utils.set_random_seed(0)
    preprocessor = TokenPreprocessor(WordPieceTokenizer(VOCABULARY), Packing(pad="[PAD]"), sequence_length)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": 32}
    encoder = TransformerEncoder(len(VOCABULARY), **sizes, dropout=0.0, norm="pre", causal=True, speakers=[2, 4, 5])
    return DialogueModel(encoder, preprocessor, **options)


def ids(text):
    return [VOCABULARY.index(word) for word in text.split()]


def test_it_learns_to_reply_and_to_find_the_reply_and_survives_keras_files(eagerly):
    task = model()
    task.compile(keras.optimizers.Adam(0.02), run_eagerly=EAGER)
    before = task.evaluate(EXAMPLES, verbose=0, return_dict=True)
    start = [keras.ops.convert_to_numpy(weight).copy() for weight in task.trainable_weights]
    task.fit(EXAMPLES, batch_size=4, epochs=15, verbose=0)
    moved = [(old != keras.ops.convert_to_numpy(new)).any() for old, new in zip(start, task.trainable_weights)]
    assert all(has_moved for has_moved, old in zip(moved, start) if old.size > 1)
    after = task.evaluate(EXAMPLES, verbose=0, return_dict=True)
    assert before.keys() == {"loss", "perplexity", "hits_at_1"}
    assert after["perplexity"] < 1.5 < before["perplexity"] and after["hits_at_1"] == 1.0
    same = save_and_load(task)
    assert same.evaluate(EXAMPLES, verbose=0, return_dict=True) == pytest.approx(after)
    persona, history, reply, _ = EXAMPLES[0]
    assert same.rank(history, ["you", reply], persona=persona).argmax() == 1
    assert same.reply(history, persona=persona, max_length=24) == reply


def test_the_inputs_are_those_of_the_tutorial_and_the_last_candidate_is_the_reply():
    examples = [(["i am bob"], ["hi", "who"], "i am", ["hi", "i am", "you"]), ([], ["who are you"], "hi")]
    inputs, targets, weights = model(num_candidates=3).dataset(examples)[0]
    length = inputs["token_ids"].shape[2]
    assert inputs["token_ids"].shape == (2, 3, length)
    for row, part, (persona, history, reply) in (
        (0, 0, (["i am bob"], ["hi", "who"], "hi")),
        (0, 1, (["i am bob"], ["hi", "who"], "you")),
        (0, 2, (["i am bob"], ["hi", "who"], "i am")),
        (1, 2, ([], ["who are you"], "hi")),
    ):
        expected = dialogue_inputs([ids(text) for text in persona], map_ids(history), ids(reply), **SPECIAL)
        count = len(expected.words)
        assert inputs["token_ids"][row, part].tolist() == expected.words + [0] * (length - count)
        assert inputs["padding_mask"][row, part].tolist() == [1] * count + [0] * (length - count)
        if part == 2:
            assert np.where(weights[row] > 0, targets[row], -1).tolist() == expected.targets + [-1] * (length - count)


def test_only_the_second_head_moves_above_a_frozen_encoder_also_in_a_file():
    task = model()
    freeze(task, below="head")
    names = [weight.path for weight in task.trainable_weights]
    assert names == ["next_utterance/kernel", "next_utterance/bias"]
    task.compile(keras.optimizers.Adam(0.1), run_eagerly=True)
    task.train_on_batch(EXAMPLES)
    model()  # Names do not depend on what the process has made.
    again = save_and_load(task)
    assert [weight.path for weight in again.trainable_weights] == names
    np.testing.assert_array_equal(again.rank(["hi"], ["you", "are"]), task.rank(["hi"], ["you", "are"]))
    assert again.train_on_batch(EXAMPLES) == pytest.approx(task.train_on_batch(EXAMPLES), rel=1e-5)


def test_prepared_data_are_predicted_and_any_number_of_candidates_is_taken():
    import tensorflow as tf

    task = model()
    task.compile("sgd", run_eagerly=True)
    inputs, targets, weights = task.dataset(EXAMPLES)[0]
    found, expected = task.predict(inputs, batch_size=3, verbose=0), task(inputs)
    assert found.keys() == {"logits", "next_utterance"}
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-5)
    np.testing.assert_allclose(task.predict_on_batch(inputs)["logits"], found["logits"], atol=1e-5)
    spec = tf.TensorSpec([None, None, None], "int32")
    columns = tf.TensorSpec([None, None], "int32"), tf.TensorSpec([None, None], "float32")
    stream = tf.data.Dataset.from_generator(
        lambda: [(inputs, targets, weights)], output_signature=(dict.fromkeys(inputs, spec), *columns)
    )
    stream = stream.apply(tf.data.experimental.assert_cardinality(1))
    loss = task.evaluate(EXAMPLES, verbose=0, return_dict=True)
    task.compile("sgd")
    assert task.evaluate(stream, verbose=0, return_dict=True) == pytest.approx(loss, rel=1e-4)


def test_a_checkpoint_gives_a_new_second_head_and_cannot_contain_it(tmp_path):
    speakers = [VOCABULARY.index(token) for token in ("<bos>", "<speaker1>", "<speaker2>")]
    GPT2Encoder(len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=32).save_pretrained(
        tmp_path / "gpt2"
    )
    options = {"preprocessor": None, "encoder": {"speakers": speakers}}
    with pytest.raises(CheckpointError, match='has no head for a DialogueModel. Pass `head="new"`'):
        DialogueModel.from_pretrained(tmp_path / "gpt2", **options)
    task = DialogueModel.from_pretrained(tmp_path / "gpt2", head="new", **options)
    assert task.encoder.speakers == speakers
    with pytest.raises(CheckpointError, match="head of a DialogueModel cannot be written.*`model.encoder.save_pretr"):
        task.save_pretrained(tmp_path / "task")


def test_a_reply_ends_before_a_stop_string(eagerly, monkeypatch):
    options = {}
    monkeypatch.setattr(
        Generates, "generate", lambda self, rows, *_, **given: options.update(given) or [ids("i am bob")]
    )
    assert model().reply(["hi"], stop=" bob", seed=1, bad_words=["you"]) == "i am"
    assert options["stop"] == " bob" and options["seed"] == 1 and options["bad_words"] == ["you", [2], [4], [5]]


def map_ids(texts):
    return [ids(text) for text in texts]


def test_the_loss_is_the_sum_of_that_of_the_reply_and_that_of_the_candidates():
    task = model(next_utterance_weight=0.5)
    task.compile("sgd", run_eagerly=True)
    inputs, targets, weights = task.dataset(EXAMPLES[:4])[0]
    outputs = {name: keras.ops.convert_to_numpy(value) for name, value in task(inputs).items()}
    logits, scores = outputs["logits"], outputs["next_utterance"]
    assert logits.shape == (*targets.shape, len(VOCABULARY)) and scores.shape == (4, 2)
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], 2)[..., 0]
    tokens = losses[weights > 0].mean()
    candidates = (np.log(np.exp(scores).sum(1)) - scores[:, 1]).mean()
    result = task.evaluate(EXAMPLES[:4], verbose=0, return_dict=True)
    assert result["loss"] == pytest.approx(tokens + 0.5 * candidates, rel=1e-5)
    assert result["perplexity"] == pytest.approx(np.exp(tokens), rel=1e-5)
    assert result["hits_at_1"] == pytest.approx((scores[:, 1] > scores[:, 0]).mean())
    group = layer_groups(task)[-1]
    assert group.kind == "head" and {weight.path for weight in group.variables} == {
        *("next_utterance/kernel", "next_utterance/bias")
    }
    alone = task({name: values[:, 1] for name, values in inputs.items()})  # As a language model of one text.
    np.testing.assert_allclose(alone, logits, atol=1e-5)
    assert task.train_on_batch(EXAMPLES[:4], return_dict=True)["loss"] == pytest.approx(result["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("history", "reply", "kept_persona", "kept_history", "kept_reply"),
    [
        (["hi hi hi", "who", "are you"], "i am", ["i am bob", "hi"], ["are you"], "i am"),  # the oldest utterances
        (["hi", "are you"], "i am bob hi", [], ["are you"], "i am bob hi"),  # then the persona
        (
            ["are you who are you"],
            "i am",
            ["i am bob"],
            ["who are you"],
            "i am",
        ),  # then a start
        (["are you who", "hi"], "i am you are i am", [], ["hi"], "i am you are i am"),
        (["hi", "you"], "i am you are i am i am hi hi", [], ["you"], "i am you are i am i"),  # and the end of the reply
    ],
)
def test_a_long_dialogue_loses_its_oldest_utterances_then_the_persona_and_no_delimiter(
    history, reply, kept_persona, kept_history, kept_reply
):
    task = model(sequence_length=12)
    inputs = task.dataset([(["i am bob", "hi"], history, reply, ["hi"])])[0][0]["token_ids"][0]
    for part, text in ((0, "hi"), (1, kept_reply)):  # All candidates follow the same dialogue.
        expected = dialogue_inputs(map_ids(kept_persona), map_ids(kept_history), ids(text), **SPECIAL).words
        assert inputs[part, : len(expected)].tolist() == expected and not inputs[part, len(expected) :].any()


def test_the_longest_candidate_decides_what_all_of_them_follow():
    inputs = model(sequence_length=12).dataset([([], ["hi", "who", "you"], "i", ["i am bob hi"])])[0][0]["token_ids"][0]
    starts = [row.tolist()[: row.tolist().index(5, 2)] for row in inputs]  # up to the delimiter of the reply
    assert starts[0] == starts[1] == [2, *ids("<speaker2> who <speaker1> you")]


def test_dialogues_that_are_cut_are_logged(caplog):
    task = model(sequence_length=12)
    with caplog.at_level("WARNING", "keras_transfer"):
        task.dataset([([], ["hi"], "hi", ["you"])])
        assert not caplog.messages
        task.dataset([([], ["hi"], "hi", ["you"]), ([], ["hi " * 20], "hi", ["you"])])
    assert "1 of 2 texts (50%) reach the sequence length of 12 tokens" in caplog.messages[0]


def test_the_prompt_of_a_reply_leaves_a_quarter_of_the_length(monkeypatch):
    prompts = []
    monkeypatch.setattr(
        DialogueModel, "generate", lambda self, rows, *_, **options: prompts.extend(rows) or [ids("hi you")]
    )
    task, persona, history = model(sequence_length=12), ["i am bob", "hi"], ["hi hi hi", "who", "are you"]
    assert task.reply(history * 5, persona=persona) == "hi you"
    assert prompts == [dialogue_inputs(map_ids(persona), map_ids(["who", "are you"]), **SPECIAL).words]


def test_examples_of_personachat_are_taken_as_they_are(data_dir):
    dialogues = load_personachat(data_dir("personachat") / "valid_self_original_no_cands.txt")
    examples = dialogues[0].examples()
    data = model(num_candidates=4).dataset(examples, batch_size=3)
    assert len(data) == -(-len(examples) // 3) and data[0][0]["token_ids"].shape[:2] == (3, 4)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (["hi"], "expects a list of examples, tuples"),
        ([(["hi"], "hi", "hi")], "`history` must be a list of strings. Received: 'hi' at position 0"),
        ([(["hi"], ["hi"], ["hi"])], r"`reply` must be a string. Received: \['hi'\] at position 0"),
        ([(["hi"], ["hi"], "hi"), (["hi"], ["hi"])], "Received: None at position 1"),
        ([(["hi"], ["hi"], "hi")], "needs 1 wrong candidates.* Received: 0 for 'hi'"),
    ],
)
def test_examples_that_are_none_are_an_error(examples, message):
    task = model()
    task.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match=message):
        task.fit(examples, verbose=0)


def test_other_mistakes_are_errors():
    task = model()
    with pytest.raises(ValueError, match="computes its own loss and metrics"):
        task.compile(loss="mse")
    with pytest.raises(ValueError, match="Received: weighted_metrics="):
        task.compile(weighted_metrics=["accuracy"])
    for method in (task.predict, task.predict_on_batch):
        with pytest.raises(ValueError, match="Use `reply` or `rank`"):
            method(EXAMPLES[:1])
    for method in (task.generate, task.score):
        for texts in ("hi", ["hi"]):
            with pytest.raises(ValueError, match="prepared ids.* Use `reply` or `rank` for strings. Received: .*hi"):
                method(texts)
    assert not hasattr(task, "classify")  # `rank` compares replies.
    task.compile("sgd", run_eagerly=True)
    inputs, targets, _ = task.dataset(EXAMPLES)[0]
    with pytest.raises(ValueError, match="must contain targets, and sample weights.* Received: sample_weight=None"):
        task.train_on_batch(inputs, targets)
    with pytest.raises(ValueError, match="`candidates` must contain at least one reply"):
        task.rank(["hi"], [])
    with pytest.raises(ValueError, match="`history` must be a list of strings"):
        task.reply("hi")
    with pytest.raises(ValueError, match="must be an integer of at least 2. Received: num_candidates=1"):
        DialogueModel(task.encoder, task.preprocessor, num_candidates=1)
    encoder = TransformerEncoder(
        len(VOCABULARY), num_layers=1, num_heads=2, hidden_dim=8, intermediate_dim=16, norm="pre", causal=True
    )
    with pytest.raises(ValueError, match="must have `speakers`.* Received: a TransformerEncoder with speakers=None"):
        DialogueModel(encoder, task.preprocessor)
    encoder = TransformerEncoder(
        len(VOCABULARY),
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        norm="pre",
        causal=True,
        speakers=[2, 5, 4],
    )
    with pytest.raises(ValueError, match=r"\[2, 4, 5\]. Received: speakers=\[2, 5, 4\]"):
        DialogueModel(encoder, task.preprocessor).reply(["hi"])
