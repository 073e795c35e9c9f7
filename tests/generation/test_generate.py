"""`CausalLM.generate` on token ids: Transformers' results (references/make_generation.py), the cache, and bad input."""

import json

import keras
import numpy as np
import pytest

from keras_transfer import generation
from keras_transfer.encoders import Encoder, TransformerEncoder
from keras_transfer.tasks import CausalLM
from tests.errors import check_errors
from tests.helpers import outputs_of
from tests.samples import REFERENCES

FOLDER = REFERENCES / "generation"
REFERENCE = json.loads((FOLDER / "outputs.json").read_text())
END, LENGTH = 5, 24
PROMPTS = REFERENCE["prompts"]
CASES = {
    "greedy": {},
    "constrained": {"repetition_penalty": 1.3, "no_repeat_ngram": 2, "bad_words": [[18], [11, 12], [17, 11, 11]]},
    "beam": {"sampler": generation.BeamSearch(3), "num_sequences": 2},
    "beam_short": {"sampler": generation.BeamSearch(4, length_penalty=-1.0)},
    "beam_early": {"sampler": generation.BeamSearch(2, length_penalty=0.5, early_stopping=True), "no_repeat_ngram": 3},
    "new_tokens": {"max_new_tokens": 7},
    "least_new": {"min_new_tokens": 6, "bad_words": [[11], [18]]},
    "beam_forced": {"num_beams": 4, "forced_first": 17, "forced_last": END, "min_new_tokens": 5},
    "beam_never": {"sampler": generation.BeamSearch(3, length_penalty=2.0, early_stopping="never")},
    "beam_never_short": {"sampler": generation.BeamSearch(3, length_penalty=-0.5, early_stopping="never")},
    "beam_ends": {"sampler": generation.BeamSearch(3, early_stopping=True), "end_token": [END, 18, 22]},
}


@pytest.fixture(scope="module")
def model():
    """The model of the references."""
    return CausalLM.from_pretrained(FOLDER, preprocessor=None, max_length=LENGTH)


def logits_of(model, ids):
    """Returns the logits of a row of ids, by a whole pass without a cache."""
    row = np.array([ids], "int32")
    return outputs_of(model, {"token_ids": row, "padding_mask": np.ones_like(row)})[0]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.core if case in ("greedy", "beam", "beam_forced") else ()) for case in CASES],
)
def test_prompts_of_unequal_length_continue_as_in_transformers(model, traced, case):
    prompts = [prompt[:1] for prompt in PROMPTS] if case == "beam_forced" else PROMPTS
    found = model.generate(prompts, **{"end_token": END, "batch_size": 50, **CASES[case]})
    found = found if CASES[case].get("num_sequences") else [[ids] for ids in found]
    assert found == REFERENCE[case]


def test_the_compiled_loop_gives_the_same_in_batches_of_any_size(model):
    assert model.generate(PROMPTS[:7], end_token=END, batch_size=3) == [ids for [ids] in REFERENCE["greedy"][:7]]


@pytest.mark.core
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("mixed_bfloat16", 0.5)])
def test_with_a_cache_each_token_is_the_most_likely_one_without(traced, dtype, tolerance):
    model = CausalLM(Encoder.from_pretrained(FOLDER, dtype=dtype))
    for prompt, found in zip(PROMPTS[:3], model.generate(PROMPTS[:3], max_length=LENGTH, end_token=None), strict=True):
        logits = logits_of(model, prompt + found)[len(prompt) - 1 : -1]  # up to about 30, so bfloat16 rounds to 0.125
        assert (logits.max(axis=1) - logits[np.arange(len(found)), found] < tolerance).all()


def test_contrastive_search_equals_its_definition(model, eagerly):
    k, alpha, prompts = 3, 0.8, [[12], [9, 14, 20]]

    both = keras.Model(model.input, [model.encoder.output["sequence_output"], model.output])

    def whole_pass(rows):
        """Returns vectors and logits of k rows, which are padded to 8 ids so that there is one shape."""
        length = len(rows[0])
        ids = np.array([[*row, *[0] * (8 - length)] for row in rows * (k if len(rows) == 1 else 1)], "int32")
        mask = np.broadcast_to(np.arange(8) < length, ids.shape).astype("int32")
        return [values[:, :length] for values in outputs_of(both, {"token_ids": ids, "padding_mask": mask})]

    def by_hand(ids, length):
        count = len(ids)
        while len(ids) < length:
            logits = whole_pass([ids])[1][0, -1]
            weights = np.exp(logits - logits.max())
            candidates = np.argsort(-weights)[:k]
            vectors = whole_pass([[*ids, token] for token in candidates])[0]
            vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
            similarity = np.einsum("kd,ktd->kt", vectors[:, -1], vectors[:, :-1]).max(axis=1)
            score = (1 - alpha) * weights[candidates] / weights.sum() - alpha * similarity
            ids = [*ids, int(candidates[score.argmax()])]
        return ids[count:]

    sampler = generation.ContrastiveSearch(k, alpha=alpha)
    found = model.generate(prompts, max_length=8, sampler=sampler, end_token=None)
    assert found == [by_hand(prompt, 8) for prompt in prompts]
    greedy = model.generate(prompts, max_length=8, end_token=None)
    assert (
        model.generate(prompts, max_length=8, sampler=generation.ContrastiveSearch(k, alpha=0), end_token=None)
        == greedy
        != found
    )


@pytest.mark.core
def test_random_sequences_depend_on_the_seed_and_not_on_the_batch(model, traced):
    options = {"max_length": 20, "sampler": generation.Random(3.0), "num_sequences": 2, "end_token": None}
    found = model.generate(PROMPTS[:3], seed=1, **options)
    assert [len(ids) for pair in found for ids in pair] == [
        20 - len(prompt) for prompt in PROMPTS[:3] for _ in range(2)
    ]
    assert all(first != second for first, second in found)
    assert model.generate(PROMPTS[:3], seed=1, batch_size=1, **options) == found
    assert model.generate(PROMPTS[:3], seed=2, **options) != found
    keras.utils.set_random_seed(5)
    one = model.generate(PROMPTS[:3], **options)
    keras.utils.set_random_seed(5)
    assert model.generate(PROMPTS[:3], **options) == one != found


def test_a_longer_prompt_changes_no_random_sequence_of_another(eagerly):
    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "intermediate_dim": 4, "max_sequence_length": 64}
    model = CausalLM(TransformerEncoder(20, causal=True, **sizes))
    options = {"sampler": generation.TopP(1.0), "seed": 1, "max_new_tokens": 4, "num_sequences": 2, "end_token": None}
    short, long = (model.generate([[3, 4], [5], [6] * count], **options) for count in (1, 40))
    assert short[:2] == long[:2] and short[0][0] != short[0][1]


def test_each_token_is_reported_as_soon_as_it_is_chosen(model, eagerly):
    seen = [[], [], []]
    found = model.generate(PROMPTS[:3], end_token=END, on_token=lambda index, token: seen[index].append(token))
    assert seen == found == [ids for [ids] in REFERENCE["greedy"][:3]]


def test_padded_ids_and_a_prompt_without_room_are_accepted(model, eagerly):
    padded = {"token_ids": np.array([[9, 8, 0], [12, 20, 9]]), "padding_mask": np.array([[1, 1, 0], [1, 1, 1]])}
    assert model.generate(padded, max_length=6, end_token=None) == model.generate(
        [[9, 8], [12, 20, 9]], max_length=6, end_token=None
    )
    assert model.generate([[9, 8]], max_length=2) == [[]]
    assert model.generate([], max_length=2) == []


test_bad_input_is_an_error = pytest.mark.core(
    check_errors(
        (([[9], []], {}), "Each prompt must have at least one token. Received: an empty prompt at position 1"),
        (
            ([list(range(33)) * 1], {}),
            "at most 32 tokens, the encoder's number of positions. Shorten it. Received: 33 tokens at pos",
        ),
        (
            ([[9, 9, 9]], {"max_length": 2}),
            "counts the tokens of the prompt too ... max_length=2 and a prompt of 3 tokens",
        ),
        (([[9]], {"max_length": 33}), "`max_length` must be at most 32, the encoder's number of positions"),
        (([[24]], {}), "Token ids must be from 0 to 23"),
        (([[0.5]], {}), "Prompts must be strings, lists of token ids"),
        ((["a"], {}), "Raw text requires a preprocessor"),
        (([[9]], {"sampler": "best"}), "Invalid value for argument `sampler`"),
        (
            ([[9]], {"max_new_tokens": 32}),
            "must fit into 32 tokens ... max_new_tokens=32 and a prompt of 1 tokens at pos",
        ),
        (
            ([[9]], {"max_new_tokens": 3, "max_length": 4}),
            "Pass either `max_length` ... or `max_new_tokens`. Received",
        ),
        (
            ([[9, 9]], {"min_new_tokens": 31}),
            "`min_new_tokens` must be at most 22 ... min_new_tokens=31 and a prompt of 2 tokens at position 0",
        ),
        (([[9]], {"num_beams": 2, "sampler": "beam"}), "`num_beams` is short for ... num_beams=2 and sampler='beam'"),
        (
            ([[9]], {"forced_first": "de_DE"}),
            "`forced_first` must be a token of the vocabulary. Received: forced_first='de",
        ),
        (([[9]], {"num_sequences": 2}), "`Greedy` has one result for each prompt"),
        (([[9]], {"num_sequences": 5, "sampler": "beam"}), "at most 4, the number of beams"),
        (([[9]], {"sampler": "beam", "on_token": print}), "`on_token` requires a sampler that decides token by token"),
        (([[9]], {"bad_words": ["word"]}), "`bad_words` must be ids if there is no preprocessor"),
        (([[9]], {"stop": "."}), "Raw text requires a preprocessor"),
        (([[9]], {"end_token": "[END]"}), "`end_token` must be a token of the vocabulary"),
        call=lambda prompts, options, model: model.generate(prompts, **options),
    )
)
