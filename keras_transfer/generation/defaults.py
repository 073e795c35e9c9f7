"""The defaults of generation in a checkpoint, from its `generation_config.json` or its `config.json`."""

import dataclasses
import logging

from keras_transfer.core.expect import expect
from keras_transfer.encoders import attached_to
from keras_transfer.generation.constraints import Constraints

log = logging.getLogger("keras_transfer")

# Settings that `generate` uses.
_READ = {
    "bad_words_ids",
    "decoder_start_token_id",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "repetition_penalty",
    "suppress_tokens",
}
# Settings that change nothing here, and those that Transformers uses only for random samplers or for beams.
_WITHOUT_EFFECT = {"bos_token_id", "pad_token_id", "use_cache", "transformers_version"}
_WITHOUT_EFFECT |= {"return_dict_in_generate", "cache_implementation", "max_time"}
_OF_RANDOM = {"temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"}
_OF_BEAMS = {"num_beam_groups", "diversity_penalty"}
# Settings in whose place a sampler can be passed.
OF_SAMPLERS = frozenset({"do_sample", "num_beams", "num_return_sequences", *_OF_RANDOM, *_OF_BEAMS})
# Values of other settings that change nothing.
_NEUTRAL = {"do_sample": False, "num_beams": 1, "num_return_sequences": 1}


@dataclasses.dataclass(frozen=True)
class GenerationDefaults:
    """What a checkpoint specifies for `generate`, `None` for what it does not say.

    Attributes:
        end_ids: Tuple of integers. Tokens that end a sequence.
        max_new_tokens: Integer. If it is given, `max_length` does not count.
        start_id: Integer. The token that an encoder-decoder continues.
        beams: Dict of the checkpoint's `length_penalty` and `early_stopping`, for `BeamSearch`.
        unused: Dict of the settings that `generate` does not use.
    """

    end_ids: tuple | None = None
    constraints: Constraints = dataclasses.field(default_factory=Constraints)
    max_length: int | None = None
    max_new_tokens: int | None = None
    start_id: int | None = None
    beams: dict = dataclasses.field(default_factory=dict)
    unused: dict = dataclasses.field(default_factory=dict)


_IN_CONFIG = {"eos_token_id", "decoder_start_token_id"}  # They count even if there is a `generation_config.json`.


def generation_defaults(encoder):
    """Returns the `GenerationDefaults` of an encoder's checkpoint; without a checkpoint, they change nothing.

    As in Transformers, `config.json` only counts if there is no `generation_config.json`, except for `eos_token_id` and
    the start token, with which the model was trained.
    """
    files = attached_to(encoder).files
    config, own = files.get("config.json", {}), files.get("generation_config.json")
    found = {key: config[key] for key in (_READ if own is None else _IN_CONFIG) if key in config}
    found = {key: value for key, value in {**found, **(own or {})}.items() if value is not None}
    ends = _ids(found, "eos_token_id")
    words = [_checked(word, "bad_words_ids") for word in found.get("bad_words_ids", ())]
    # A word that is an end token alone does not count, as in Transformers. It may be suppressed.
    words = [word for word in words if word not in {(end,) for end in ends or ()}]
    words += [(token,) for token in _ids(found, "suppress_tokens") or ()]
    first, start = _ids(found, "forced_bos_token_id"), _ids(found, "decoder_start_token_id")
    constraints = Constraints(
        _number(found, "repetition_penalty", 1.0, float),
        _number(found, "no_repeat_ngram_size", 0, int),
        tuple(dict.fromkeys(words)),
        _number(found, "min_length", 0, int),
        _number(found, "min_new_tokens", 0, int),
        first[0] if first else None,
        _ids(found, "forced_eos_token_id") or (),
    )
    beams = {}
    if "length_penalty" in found:
        beams["length_penalty"] = _number(found, "length_penalty", None, float)
    if "early_stopping" in found:
        beams["early_stopping"] = found["early_stopping"]
    lengths = [_number(found, key, None, int) for key in ("max_length", "max_new_tokens")]
    return GenerationDefaults(ends, constraints, *lengths, start[0] if start else None, beams, _unused(found))


def log_unused(unused):
    """Logs a warning that names settings of a checkpoint that `generate` does not use, if there are any."""
    if unused:
        log.warning(
            "`generate` does not read these settings of generation_config.json: %s. Pass `num_beams=4` or a sampler "
            "instead, such as `generation.TopP(0.9, temperature=0.7)`.",
            ", ".join(f"{key}={value!r:.40}" for key, value in unused.items()),
        )


def _unused(found):
    random, beams = found.get("do_sample", False), found.get("num_beams", 1) != 1
    silent = _READ | _WITHOUT_EFFECT | (set() if random else _OF_RANDOM) | (set() if beams else _OF_BEAMS)
    return {
        key: value
        for key, value in found.items()
        if key not in silent and not key.startswith(("_", "output_")) and value != _NEUTRAL.get(key)
    }


def _ids(found, key):
    """Returns a setting that is an id or a list of ids as a tuple, or `None` if it is missing."""
    return _checked(found[key], key) if key in found else None


def _checked(value, key):
    ids = value if isinstance(value, list) else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids) or not ids:
        raise ValueError(f"`{key}` of the checkpoint must consist of token ids. Received: {key}={value!r:.100}")
    return tuple(ids)


def _number(found, key, default, kind):
    value = found.get(key, default)
    allowed = (int, float) if kind is float else int
    rule = f"`{key}` of the checkpoint must be a number."
    expect(value is None or (isinstance(value, allowed) and not isinstance(value, bool)), rule, **{key: value})
    return value if value is None else kind(value)
