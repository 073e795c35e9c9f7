"""No setting of the configurations of encoder-decoders is ignored silently."""

import logging

import pytest

from keras_transfer.checkpoints import CheckpointError
from keras_transfer.checkpoints.architectures.bart import BART, MARIAN, MBART, PEGASUS
from keras_transfer.checkpoints.architectures.t5 import T5_ENCODER, T5_RECORD
from tests.errors import check_errors

T5 = {"vocab_size": 20, "num_layers": 1, "num_heads": 2, "d_model": 8, "d_ff": 16}
_HALF = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}
OTHERS = {"vocab_size": 20, "d_model": 8} | {
    f"{half}_{name}": size for half in ("encoder", "decoder") for name, size in _HALF.items()
}


def _of(record, **settings):
    return record.arguments({**(T5 if record in (T5_RECORD, T5_ENCODER) else OTHERS), **settings}, "a folder")


test_a_setting_that_is_not_supported_is_an_error = check_errors(
    (lambda: _of(T5_RECORD, feed_forward_proj="gated-relu"), "`feed_forward_proj` must be one of"),
    (lambda: _of(T5_RECORD, dense_act_fn="silu"), "`dense_act_fn` must be 'relu'", "feed_forward_proj='relu'"),
    (lambda: _of(T5_ENCODER, is_gated_act=True), "`is_gated_act` must be False, as in `feed_forward_proj`"),
    (lambda: _of(T5_RECORD, num_attention_heads=4), "`num_attention_heads` must be equal to `num_heads`"),
    (lambda: _of(T5_RECORD, is_decoder=True), "`is_decoder` must be False. Received: True"),
    (lambda: _of(BART, num_attention_heads=4), "num_attention_heads=4 and encoder_attention_heads=2"),
    (lambda: _of(BART, activation_function="mish"), "`activation_function` must be one of"),
    (lambda: _of(BART, tie_word_embeddings=False), "`tie_word_embeddings` must be True"),
    (lambda: _of(MBART, normalize_before=False), "`normalize_before` must be True"),
    (lambda: _of(PEGASUS, static_position_embeddings=False), "`static_position_embeddings` must be True"),
    (lambda: _of(MARIAN, decoder_vocab_size=21), "one vocabulary for both languages"),
    (lambda: _of(MARIAN, share_encoder_decoder_embeddings=False), "share_encoder_decoder_embeddings=False"),
    error=CheckpointError,
)


@pytest.mark.parametrize("record", [BART, MARIAN], ids=["bart", "marian"])
def test_layer_drop_is_a_warning_because_it_changes_only_training(record, caplog):
    with caplog.at_level(logging.WARNING, logger="keras_transfer"):
        assert _of(record, encoder_layerdrop=0.0)["num_layers"] == 1 and not caplog.messages
        _of(record, decoder_layerdrop=0.1)
    [message] = caplog.messages
    assert "`fit` trains all blocks" in message and "{'decoder_layerdrop': 0.1}" in message


# What is not read with a reason. Tokens are settings of generation, or of the tokenizer.
_OF_TOKENS = {"bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id"}
_OF_HEADS = {"classifier_dropout", "id2label", "label2id", "problem_type"}
_OF_OUTPUTS = {"output_hidden_states", "output_attentions", "return_dict", "use_cache", "is_encoder_decoder"}
_OF_FILES = {"transformers_version", "architectures", "dtype", "model_type", "_name_or_path"}
_ONLY_MEMORY = {"chunk_size_feed_forward"}  # and these models do not read it
_REFUSED = {"dense_act_fn", "is_gated_act", "decoder_vocab_size", "share_encoder_decoder_embeddings"}
_READ = {"feed_forward_proj", "scale_decoder_outputs", "tie_word_embeddings"}
_WARNED = {"encoder_layerdrop", "decoder_layerdrop"}


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("T5", T5_RECORD),
        ("MT5", T5_RECORD),
        ("Bart", BART),
        ("MBart", MBART),
        ("Pegasus", PEGASUS),
        ("Marian", MARIAN),
    ],
)
def test_each_setting_of_transformers_is_known(name, record):
    transformers = pytest.importorskip("transformers")
    settings = set(getattr(transformers, f"{name}Config")().to_dict())
    known = {key for _, key, *_ in record.settings} | set(record.fixed) | set(record.synonyms)
    known |= _OF_TOKENS | _OF_HEADS | _OF_OUTPUTS | _OF_FILES | _ONLY_MEMORY | _REFUSED | _READ | _WARNED
    assert settings - known == set()
