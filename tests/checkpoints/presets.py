"""Small KerasHub presets of random numbers: backbones of some families, with their preprocessors."""

import keras
import pytest

keras_hub = pytest.importorskip("keras_hub", reason="needs KerasHub: pip install keras-hub")
pytest.importorskip("tensorflow_text", reason="KerasHub's preprocessors need TF Text: pip install tensorflow-text")

WORDS = ["the", "film", "##s", "was", "good", "bad", "fine"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TEXTS = ["the film was good", "bad films", "Fine films, the film was bad"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 8, "intermediate_dim": 16, "max_sequence_length": 16}


def bert(prefix="Bert", **arguments):
    """Returns a backbone and its preprocessor with a WordPiece vocabulary."""
    models = keras_hub.models
    tokenizer = getattr(models, f"{prefix}Tokenizer")(vocabulary=VOCABULARY, lowercase=True)
    preprocessor = getattr(models, f"{prefix}TextClassifierPreprocessor")(tokenizer, sequence_length=8)
    keras.utils.set_random_seed(0)
    backbone = getattr(models, f"{prefix}Backbone")(vocabulary_size=len(VOCABULARY), **{**SIZES, **arguments})
    return backbone, preprocessor


def distil_bert():
    return bert("DistilBert")


def roberta():
    """Returns a backbone and its preprocessor with a byte-level BPE vocabulary."""
    pieces = ["<s>", "<pad>", "</s>", "<mask>", "f", "i", "l", "m", "fi", "lm", "film", "Ġ", "Ġfilm"]
    tokenizer = keras_hub.models.RobertaTokenizer(
        vocabulary={piece: index for index, piece in enumerate(pieces)}, merges=["f i", "l m", "fi lm", "Ġ film"]
    )
    preprocessor = keras_hub.models.RobertaTextClassifierPreprocessor(tokenizer, sequence_length=8)
    keras.utils.set_random_seed(0)
    return keras_hub.models.RobertaBackbone(vocabulary_size=len(pieces), **SIZES), preprocessor


def image_model():
    return keras_hub.models.VGGBackbone([1], [2], image_shape=(8, 8, 3)), None


def encoder_decoder():
    return keras_hub.models.BartBackbone(vocabulary_size=12, **SIZES), None


def language_model():
    return keras_hub.models.GPT2Backbone(vocabulary_size=12, **SIZES), None


def save(folder, backbone, preprocessor=None):
    """Writes a preset and returns its folder."""
    backbone.save_to_preset(str(folder))
    if preprocessor is not None:
        preprocessor.save_to_preset(str(folder))
    return folder
