"""ELMo's own files: `options.json` and `weights.hdf5`, read and written in the format of the original."""

import inspect
import json

import numpy as np

from keras_transfer.checkpoints.architecture import Architecture, register_architecture
from keras_transfer.checkpoints.building import Format
from keras_transfer.checkpoints.heads import Head
from keras_transfer.checkpoints.tensors import CheckpointError, Layout, expect, files_in, read_json, reading, tensors_of
from keras_transfer.core.files import atomic_folder
from keras_transfer.encoders import ElmoEncoder
from keras_transfer.text import NUM_CHARACTERS, ElmoPreprocessor, LengthError

OPTIONS, WEIGHTS, PREPROCESSOR = "options.json", "weights.hdf5", "elmo_preprocessor.json"
VOCABULARY = "vocabulary.txt"  # in the form of the original's


def _gates(values):
    """Swaps the second and third gates: from TensorFlow's order to Keras's and back."""
    i, second, third, o = np.split(values, 4, axis=-1)
    return np.concatenate([i, third, second, o], axis=-1)


_GATES = Layout(_gates, _gates)
_CONVOLUTION = Layout(lambda tensor: tensor[0], lambda array: array[None])
# The original has no row for padding, whose vector is 0.
_CHARACTERS = Layout(lambda tensor: np.pad(tensor, [(1, 0), (0, 0)]), lambda array: array[1:])


def _direction(place):
    """Returns the tensors of the forward (0) or backward (1) LSTMs."""
    block, cell = f"blocks.*.{place}", f"RNN_{place}/RNN/MultiRNNCell/Cell*/LSTMCell"
    return {
        (f"{block}.kernel", f"{block}.cell.recurrent_kernel"): (f"{cell}/W_0", _GATES),
        f"{block}.bias": (f"{cell}/B", _GATES),
        f"{block}.cell.projection": f"{cell}/W_P_0",
    }


def _check_words(preprocessor, folder):
    """Raises a `CheckpointError` if a preprocessor has other words than the softmax in a folder that names them."""
    if not getattr(preprocessor, "has_vocabulary", False) or not (folder / VOCABULARY).exists():
        return
    with reading(f"The {VOCABULARY} of {folder}"):
        theirs = ElmoPreprocessor(vocabulary=folder / VOCABULARY).vocabulary
    ours = preprocessor.vocabulary
    if ours == theirs:
        return
    place = next((k for k, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs)))
    words = [repr(words[place]) if place < len(words) else "none" for words in (ours, theirs)]
    raise CheckpointError(
        f"`preprocessor` must have the words of the softmax of {folder}, in the order of its {VOCABULARY}. Leave it "
        'out, or pass `head="new"` for a new softmax, which is not trained yet. '
        f"Received: {len(ours)} words, the folder has {len(theirs)}; word {place} is {words[0]}, and {words[1]} there"
    )


ELMO = register_architecture(
    Architecture(
        model_type="elmo",
        encoder_class=ElmoEncoder,
        format="elmo",
        settings=(
            ("embedding_dim", "char_cnn.embedding.dim", int),
            ("filters", "char_cnn.filters", list),
            ("num_highways", "char_cnn.n_highway", 0),
            ("projection_dim", "lstm.projection_dim", int),
            ("units", "lstm.dim", int),
            ("num_layers", "lstm.n_layers", int),
            ("cell_clip", "lstm.cell_clip", None),
            ("projection_clip", "lstm.proj_clip", None),
            ("residual", "lstm.use_skip_connections", False),
            ("activation", "char_cnn.activation", str, {"relu": "relu", "tanh": "tanh"}),
            ("max_characters", "char_cnn.max_characters_per_token", int),
        ),
        tensors={
            "words.embedding.embeddings": ("char_embed", _CHARACTERS),
            "words.convolutions.*.kernel": ("CNN/W_cnn_*", _CONVOLUTION),
            "words.convolutions.*.bias": "CNN/b_cnn_*",
            "words.highways.*.0.kernel": "CNN_high_*/W_carry",
            "words.highways.*.0.bias": "CNN_high_*/b_carry",
            "words.highways.*.1.kernel": "CNN_high_*/W_transform",
            "words.highways.*.1.bias": "CNN_high_*/b_transform",
            "words.projection.kernel": "CNN_proj/W_proj",
            "words.projection.bias": "CNN_proj/b_proj",
            **_direction(0),
            **_direction(1),
        },
        preprocessor_class=ElmoPreprocessor,
        # The original's checkpoints in training have it, its published files do not.
        heads={
            "bidirectional_lm": Head(
                "softmax/",
                ("BidirectionalLM",),
                tensors={"softmax.kernel": "softmax/W", "softmax.bias": "softmax/b"},
                settings=(("vocabulary_size", "n_tokens_vocab", int),),
                by_tensors=True,
                check_preprocessor=_check_words,
            )
        },
        fixed={"char_cnn.n_characters": NUM_CHARACTERS},  # the file of a model in training has one less
    )
)


class ElmoFolder(Format):
    """A folder with ELMo's two files, and with the settings and words of a preprocessor in two others, if any."""

    architecture = ELMO

    def __init__(self, folder):
        super().__init__(folder)
        self.config = read_json(folder / OPTIONS)

    @staticmethod
    def recognises(folder):
        return (folder / OPTIONS).exists()

    def preprocessor(self, word_level=False, **overrides):
        arguments, folder = ELMO.arguments(self.config, self.folder), self.folder
        settings = read_json(folder / PREPROCESSOR) if (folder / PREPROCESSOR).exists() else {}
        if (folder / VOCABULARY).exists():
            settings["vocabulary"] = folder / VOCABULARY
        inspect.signature(ElmoPreprocessor).bind(**overrides)  # A misspelt argument is a TypeError.
        others = () if overrides.get("sequence_length") is None else (LengthError,)  # the user's, not the folder's
        with reading(f"The preprocessor of {folder}", *others):
            return ElmoPreprocessor(**{"max_characters": arguments["max_characters"], **settings, **overrides})

    def readers(self):
        import h5py

        folder, arrays = self.folder, {}
        found = [folder / WEIGHTS] if (folder / WEIGHTS).exists() else sorted(folder.glob("*weights*.hdf5"))
        expect(len(found) == 1, f"{folder} must have one {WEIGHTS}.", received=files_in(folder))

        def take(name, item):
            if isinstance(item, h5py.Dataset):
                arrays[name] = item[...]

        with reading(f"{found[0]} must be an HDF5 file, but it"), h5py.File(found[0], "r") as file:
            file.visititems(take)
        return {name: lambda array=array: array for name, array in arrays.items()}


def save(architecture, encoder, preprocessor, folder, overwrite, head=None):
    """Writes an encoder, and the softmax of a language model, as ELMo's two files, and its preprocessor in others."""
    import h5py

    settings = {} if preprocessor is None else preprocessor.get_config()
    settings.pop("name", None)
    count = settings.get("max_characters", encoder.max_characters)
    rule = f"`preprocessor` must have the encoder's `max_characters`, {encoder.max_characters}."
    expect(count == encoder.max_characters, rule, received=f"max_characters={count}")
    with atomic_folder(folder, overwrite) as temporary:
        if settings:
            (temporary / PREPROCESSOR).write_text(json.dumps(settings, indent=2) + "\n")
            preprocessor.save_assets(temporary)
        configuration = architecture.configuration(encoder) | ({} if head is None else head.config)
        (temporary / OPTIONS).write_text(json.dumps(configuration, indent=2) + "\n")
        tensors = {**({} if head is None else head.tensors), **tensors_of(architecture.entries(encoder))}
        with h5py.File(temporary / WEIGHTS, "w") as file:
            for name, tensor in tensors.items():
                file[name] = tensor
