"""Encoder-decoders from the checkpoints of two encoders."""

import types

import keras

from keras_transfer.checkpoints.building import CheckpointReport
from keras_transfer.checkpoints.checkpoint import open_checkpoint
from keras_transfer.checkpoints.tensors import log
from keras_transfer.core.expect import expect
from keras_transfer.encoders import ComposedEncoderDecoder, Encoder, attached_to

_HEAD = "masked_lm"


def compose(encoder, decoder, tied, name, overrides):
    """Returns a `ComposedEncoderDecoder` of two encoders or sources; see `EncoderDecoder.from_encoders`."""
    if decoder is not None and (decoder is encoder or (isinstance(encoder, str) and decoder == encoder)):
        decoder = None
    rule = "Arguments of an encoder can be passed for sources only, since an encoder has them already."
    if any(isinstance(half, Encoder) for half in (encoder, decoder)):
        expect(not overrides, rule, **overrides)
    names = " and ".join(_name(half) for half in (encoder, decoder) if half is not None)
    encoder, head = _with_head(encoder, overrides)
    if decoder is not None:
        decoder, head = _with_head(decoder, overrides)
    found = {} if head is None else head.head.arguments_for(encoder if decoder is None else decoder)
    head, activation = (head, found["activation"]) if found.get("use_bias") else (None, None)
    model = ComposedEncoderDecoder(encoder, decoder, tied=tied, output_activation=activation, name=name)
    new = [weight for layer in model.new_layers() for weight in layer.weights]
    if head is None:
        new += [weight for layer in model.decoder.output_transform for weight in layer.weights]
    elif model.decoder.output_transform:
        _load_head(model, head)
    model.attached.report = _report(names, [encoder, decoder], new)
    log.info("%s: %d weights are new and must be trained (%s)", names, len(new), _shown(new))
    return model


def _with_head(half, overrides):
    """Returns an encoder and the `FoundHead` of its checkpoint, or None."""
    return (half, None) if isinstance(half, Encoder) else open_checkpoint(half).encoder_and_head(_HEAD, **overrides)


def _name(half):
    return half.name if isinstance(half, Encoder) else str(half)


def _load_head(model, head):
    """Loads the head of a masked language model: the layers before the logits, and the biases of the tokens."""
    dense, norm = model.decoder.output_transform
    bias = keras.Variable(keras.ops.zeros(model.decoder.token_embedding.input_dim))
    named = {"head_dense": dense, "head_norm": norm, "logits": types.SimpleNamespace(bias=bias)}
    head.load_layers(named)
    model.initial_output_bias = keras.ops.convert_to_numpy(bias)


def _report(names, halves, new):
    reports = [report for half in halves if (report := attached_to(half).report) is not None]
    return CheckpointReport(
        names,
        sum(report.loaded for report in reports),
        [tensor for report in reports for tensor in report.unused],
        [remark for report in reports for remark in report.remarks],
        [weight.path for weight in new],
    )


def _shown(weights):
    paths = [weight.path for weight in weights]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if paths[3:] else "")
