"""The checkpoints of two encoders as an encoder-decoder: Transformers' `EncoderDecoderModel` (Rothe et al. 2020)."""

import dataclasses
import types

import keras

from keras_transfer.checkpoints.architecture import (
    Architecture,
    architecture_for,
    architecture_of,
    architecture_of_class,
    entries_of,
    other_settings,
    register_architecture,
)
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.tensors import Within, expect, tensors_of
from keras_transfer.encoders import ComposedEncoderDecoder

_BERT = "encoder.layer.*.crossattention"
_BERT_CROSS = {
    "blocks.*.cross_attention.query": f"{_BERT}.self.query",
    "blocks.*.cross_attention.key_value": [f"{_BERT}.self.key", f"{_BERT}.self.value"],
    "blocks.*.cross_attention.output_dense": f"{_BERT}.output.dense",
    "blocks.*.cross_attention_norm": f"{_BERT}.output.LayerNorm",
}
_GPT2_CROSS = {
    **{
        f"blocks.*.cross_attention.{ours}.{part}": f"h.*.crossattention.{theirs}.{suffix}"
        for ours, theirs in (("query", "q_attn"), ("key_value", "c_attn"), ("output_dense", "c_proj"))
        for part, suffix in (("kernel", "weight"), ("bias", "bias"))
    },
    "blocks.*.cross_attention_norm": "h.*.ln_cross_attn",
}
_CROSS = {"bert": _BERT_CROSS, "roberta": _BERT_CROSS, "gpt2": _GPT2_CROSS}  # by the `model_type` of the decoder
_AS_DECODER = ("is_decoder", "add_cross_attention")
# Transformers' encoders have a pooler. This key in the configuration says that ours has none.
_NO_POOLER = "keras_transfer_no_pooler"


@dataclasses.dataclass(frozen=True)
class _Pair:
    """The checkpoints of an encoder and a decoder, given their records.

    Args:
        tied: Boolean. Whether the halves share their layers.
        num_layers: Integer. Number of blocks of the decoder, if it is tied.
    """

    first: Architecture
    second: Architecture
    tied: bool
    num_layers: int

    def record(self):
        """Returns the `Architecture`."""
        first, second = self.first, self.second
        rule = (
            f"A checkpoint of an encoder-decoder must have a decoder of one of {sorted(_CROSS)}. Write the whole model "
            "with `model.save('model.keras')`."
        )
        expect(second.model_type in _CROSS, rule, second.model_type)
        layers, head = self.output_layers()
        return dataclasses.replace(
            ENCODER_DECODER,
            tensors={
                "encoder": Within(first.tensors, "encoder."),
                "decoder": Within({**({} if self.tied else self.own()), **_CROSS[second.model_type]}, self.prefix),
                **layers,
                "context_projection": "enc_to_dec_proj",
            },
            preprocessor_class=first.preprocessor_class,
            heads={"seq2seq": head},
            tied=self.copies(),
            ignored=(*first.ignored, *second.ignored, r"\.crossattention\.(masked_)?bias$"),
            renamed={**first.renamed, **second.renamed},
            fixed={"decoder.cross_attention_hidden_size": None},
            read=self.read,
            write=self.write,
            extra_tensors=self.extra_tensors,
        )

    @property
    def prefix(self):
        """String. The prefix of the names of the decoder's tensors."""
        return f"decoder.{self.second.prefix}"

    def own(self):
        """Returns the table of the decoder's tensors, without cross-attention."""
        return {ours: names for ours, names in self.second.tensors.items() if ours not in self.second.optional}

    def output_layers(self):
        """Returns the table of the layers before the logits, and the `Head` with the logits."""
        head = self.second.heads.get("masked_lm")
        if head is None:
            return {}, Head("decoder.lm_head.", ("Model",), tensors={})
        names = {ours: f"decoder.{theirs}" for ours, theirs in head.tensors.items()}
        layers = {f"decoder.output_transform.{i}": names[name] for i, name in enumerate(("head_dense", "head_norm"))}
        return layers, Head(names["logits.bias"], ("Model",), tensors={"logits.bias": names["logits.bias"]})

    def output_activation(self, decoder):
        """Returns the activation before the logits, given an object with the settings of the decoder, or None."""
        head = self.second.heads.get("masked_lm")
        return None if head is None else head.arguments_for(decoder)["activation"]

    def copies(self):
        """Returns a dict from tensor names to the names of the tensors that they copy."""
        shared = _shared_names(self.second, self.num_layers) if self.tied else {}
        of_heads = tuple(prefix for prefixes in self.second.head_prefixes.values() for prefix in prefixes)
        copies = {f"encoder.{copy}": f"encoder.{name}" for copy, name in self.first.tied.items()} | shared
        for copy, name in self.second.tied.items():
            name = f"decoder.{name}" if name.startswith(of_heads) else f"{self.prefix}{name}"
            copies[f"decoder.{copy}"] = shared.get(name, name)
        return copies

    def read(self, found, config):
        """Returns the arguments of the model, as `Architecture.read` does."""
        halves = {
            "encoder": _read_half(self.first, "encoder", config),
            "decoder": _read_half(self.second, "decoder", config),
        }
        activation = self.output_activation(types.SimpleNamespace(**halves["decoder"]["config"]))
        if self.tied:
            halves["decoder"] = None
        return {**halves, "tied": self.tied, "output_activation": activation}

    def write(self, config, model):
        """Returns the configuration of a model: `Architecture.write`."""
        decoder = _described(model)
        expected = self.output_activation(decoder)
        rule = f"The checkpoint of a {self.second.model_type!r} decoder must have `output_activation={expected!r}`."
        expect(model.output_activation in (None, expected), rule, model.output_activation)
        halves = {
            "encoder": _write_half(self.first, model.encoder),
            "decoder": {**_write_half(self.second, decoder), **dict.fromkeys(_AS_DECODER, True)},
        }
        if getattr(model.encoder, "pooler", None) is None and "pooler" in self.first.optional:
            halves["encoder"][_NO_POOLER] = True
        tying = {"tie_encoder_decoder": True} if self.tied else {}
        return {**config, **halves, "is_encoder_decoder": True, **tying}

    def extra_tensors(self, model):
        """Returns the tensors of a checkpoint that the model does not have: `Architecture.extra_tensors`."""
        first, second = self.first.extra_tensors(model.encoder), self.second.extra_tensors(_described(model))
        tensors = {f"encoder.{name}": tensor for name, tensor in first.items()}
        tensors |= {f"{self.prefix}{name}": tensor for name, tensor in second.items()}
        # Transformers shares no layers, so the files have copies.
        if self.tied:
            tensors |= tensors_of(entries_of(model, {"decoder": Within(self.own(), self.prefix)}))
        return tensors


def _shared_names(record, num_layers):
    """Returns a dict from the decoder's tensor names to the encoder's tensors that they copy."""
    shared = {}
    for names in record.tensors.values():
        names = names[0] if isinstance(names, tuple) else names
        for name in [names] if isinstance(names, str) else names:
            for index in range(num_layers if "*" in name else 1):
                for suffix in ("", ".weight", ".bias"):
                    filled = f"{name.replace('*', str(index), 1)}{suffix}"
                    shared[f"decoder.{record.prefix}{filled}"] = f"encoder.{filled}"
    return shared


def _read_half(record, half, config):
    """Returns the encoder or the decoder as Keras serializes it."""
    own = dict(config[half])
    for key in _AS_DECODER if half == "decoder" else ():
        value = own.pop(key, None)
        expect(
            value is True, f"The decoder of an encoder-decoder must have `{key}`: true.", received=f"{key}={value!r}"
        )
    arguments = record.arguments(own, f"the {half}")
    if "pooler" in record.optional and (half == "decoder" or _NO_POOLER in own):
        arguments["pooler"] = False
    cls = record.encoder_class
    written = [*_AS_DECODER, *record.fixed, *(key for _, key, *_ in record.settings)]
    kept = other_settings(own, dict.fromkeys(written, ""))
    return {
        "module": cls.__module__,
        "class_name": cls.__name__,
        "registered_name": keras.saving.get_registered_name(cls),
        "config": {**arguments, "name": half, "checkpoint_settings": {"config.json": kept}},
    }


def _write_half(record, encoder):
    """Returns the configuration of the encoder or the decoder, with the settings that it does not use."""
    config = {"model_type": record.model_type, **record.configuration(encoder)}
    kept = encoder.attached.files.get("config.json", {})
    return config | {key: value for key, value in kept.items() if key not in config or config[key] is None}


def _described(model):
    """Returns an object with the settings of the encoder that the decoder is a copy of."""
    if model.tied:
        return model.encoder
    config = model.decoder_config["config"]
    attached = types.SimpleNamespace(files=config.get("checkpoint_settings", {}))
    return types.SimpleNamespace(**config, attached=attached, get_config=lambda: config)


class _OfTwo(Architecture):
    """The record of all encoder-decoders of two encoders, whose tables depend on the records of these."""

    def for_config(self, config, source):
        encoder, decoder = config.get("encoder"), config.get("decoder")
        are_described = isinstance(encoder, dict) and isinstance(decoder, dict)
        rule = f"The configuration of {source} must describe the `encoder` and the `decoder`."
        expect(are_described, rule, sorted(config))
        first = architecture_of(encoder, f"the encoder of {source}")
        second = architecture_of(decoder, f"the decoder of {source}")
        tied = config.get("tie_encoder_decoder") is True
        if tied:
            kinds = f"{first.model_type!r} and {second.model_type!r}"
            expect(first is second, "Halves that share their layers must be of one architecture.", received=kinds)
        key = next(key for argument, key, *_ in second.settings if argument == "num_layers")
        num_layers = decoder.get(key, 0)
        return _Pair(first, second, tied, num_layers).record()

    def for_encoder(self, model):
        first = architecture_for(model.encoder)
        if model.tied:
            return _Pair(first, first, True, len(model.decoder.blocks)).record()
        name = model.decoder_config["registered_name"]
        return _Pair(first, architecture_of_class(keras.saving.get_registered_object(name)), False, 0).record()


ENCODER_DECODER = register_architecture(
    _OfTwo(
        model_type="encoder-decoder",
        encoder_class=ComposedEncoderDecoder,
        settings=(),
        tensors={},
        model_class="EncoderDecoderModel",
    )
)
