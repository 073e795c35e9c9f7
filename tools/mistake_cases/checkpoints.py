"""Sources that are no checkpoints, or whose settings are not those of the library."""

import pathlib

import keras_transfer as kt
from mistake_cases.models import Mistake

tasks = kt.tasks


def load(source, cls=tasks.TextClassifier, **options):
    return cls.from_pretrained(source, **{"num_classes": 2, **options})


def changed(**config):
    """Loads a folder whose config has other values."""
    return lambda models: load(models.saved_encoder(**config))


def fresh(models, name, text):
    """A folder with one file more."""
    folder = models.saved_encoder()
    (folder / name).write_text(text, "utf-8")
    return folder


def truncated(models):
    folder = models.saved_encoder()
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    return folder


def without(models, name):
    folder = models.saved_encoder()
    (folder / name).unlink()
    return folder


def adapter_folder(models, kind):
    """Loads the folder that PEFT writes for an adapter of another kind."""
    folder = models.folder / "peft"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(f'{{"peft_type": "{kind}"}}', "utf-8")
    (folder / "adapter_model.safetensors").touch()
    return kt.adaptation.load_adapters(models.bert_classifier(), folder)


def sentences(models, mode):
    """Loads a sentence-transformers folder with a mode of pooling."""
    folder = models.saved_encoder()
    (folder / "1_Pooling").mkdir()
    modules = '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, '
    modules += '{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]'
    (folder / "modules.json").write_text(modules, "utf-8")
    config = f'{{"word_embedding_dimension": 8, "pooling_mode_mean_tokens": false, "{mode}": true}}'
    (folder / "1_Pooling" / "config.json").write_text(config, "utf-8")
    return tasks.TextEmbedder.from_pretrained(folder).pooling


MISTAKES = [
    Mistake("a folder that does not exist", lambda m: load(m.folder / "nothing"), "nothing"),
    Mistake("an empty folder", lambda m: load(m.folder), "config.json"),
    Mistake("an unknown name", lambda m: load("minilm-l7"), "minilm-l6"),
    Mistake("a name of the Hugging Face hub without hf://", lambda m: load("bert-base/uncased"), "hf://"),
    Mistake("a .keras file", lambda m: load(m.model_file()), "load_model|keras.saving|keras.models"),
    Mistake("an integer", lambda m: load(3), "source|folder"),
    Mistake(
        "a path object", lambda m: load(pathlib.Path(m.saved_encoder())).num_classes, "path", lambda found: found == 2
    ),
    Mistake("an unknown model_type", changed(model_type="bertt"), "bertt"),
    Mistake("no model_type", lambda m: changed(model_type=None)(m).num_classes, "model_type", lambda found: found == 2),
    Mistake("an unknown activation", changed(hidden_act="gelu_fast_x"), "gelu_fast_x"),
    Mistake("another number of layers than the tensors", changed(num_hidden_layers=3), "layer"),
    Mistake("another size than the tensors", changed(hidden_size=16), "16|shape"),
    Mistake("relative positions in BERT", changed(position_embedding_type="relative_key"), "position_embedding_type"),
    Mistake("a BERT that is a decoder", changed(is_decoder=True), "is_decoder|causal"),
    Mistake(
        "id2label with a name twice",
        lambda m: tasks.TextClassifier.from_pretrained(
            m.edit(with_head(m) / "config.json", id2label={"0": "a", "1": "a"}).parent
        ),
        r"'a' for the labels \[0, 1\]",
    ),
    Mistake("a file of weights that is cut off", lambda m: load(truncated(m)), "model.safetensors"),
    Mistake("no file of weights", lambda m: load(without(m, "model.safetensors")), "safetensors"),
    Mistake("no vocabulary", lambda m: load(without(m, "vocab.txt")), "vocab"),
    Mistake("a config that is no JSON", lambda m: load(fresh(m, "config.json", "{")), "config.json"),
    Mistake(
        "an unknown tokenizer_class",
        lambda m: load(
            m.edit(m.saved_encoder() / "tokenizer_config.json", tokenizer_class="BertJapaneseTokenizer").parent
        ),
        "BertJapaneseTokenizer",
    ),
    Mistake("a damaged folder of IA3", lambda m: adapter_folder(m, "IA3"), "must be a PEFT folder"),
    Mistake("a folder of prefix tuning", lambda m: adapter_folder(m, "PREFIX_TUNING"), "PREFIX_TUNING|prefix"),
    Mistake("a folder of prompt tuning", lambda m: adapter_folder(m, "PROMPT_TUNING"), "PROMPT_TUNING|prompt"),
    Mistake("a PEFT folder as an encoder", lambda m: load(adapter_only(m)), "load_adapters|adapter"),
    Mistake(
        "pooling by the last token",
        lambda m: sentences(m, "pooling_mode_lasttoken"),
        "lasttoken",
        lambda found: found == "last",
    ),
    Mistake(
        "weighted mean pooling",
        lambda m: sentences(m, "pooling_mode_weightedmean_tokens"),
        "weightedmean",
        lambda found: "weighted" in str(found),
    ),
    Mistake(
        "pooling that nobody knows", lambda m: sentences(m, "pooling_mode_median_tokens"), "pooling_mode_median_tokens"
    ),
    Mistake(
        "save_pretrained over a folder", lambda m: m.bert().save_pretrained(m.saved_encoder(), m.pieces()), "overwrite"
    ),
    Mistake(
        "head of a folder that has none",
        lambda m: tasks.TextClassifier.from_pretrained(m.saved_encoder()),
        "num_classes",
    ),
    Mistake(
        "num_classes against the head of a folder", lambda m: load(with_head(m), num_classes=5), "head|num_classes"
    ),
    Mistake(
        "an embedder from ELMo's folder that is empty",
        lambda m: tasks.TextEmbedder.from_pretrained(m.write("options.json", "{}")),
        "folder|options.json",
    ),
    Mistake(
        "word vectors with rows of different lengths",
        lambda m: kt.checkpoints.WordVectors.load(m.write("v.txt", "a 1 2\nb 1\n")),
        "line 2|b",
    ),
    Mistake(
        "word vectors of which no word is known",
        lambda m: kt.checkpoints.WordVectors.load(m.write("v.txt", "a 1 2\n"), vocabulary=["x"]).coverage,
        "at least one word",
        lambda found: found == 0,
    ),
    Mistake("weights of classes in another order", lambda m: reordered(m, skip_mismatch=True), "another order"),
    Mistake("a vocabulary of no texts", lambda m: kt.text.train_vocabulary([], "wordpiece", 100), "text|no "),
    Mistake("a vocabulary of 2 tokens", lambda m: kt.text.train_vocabulary(["a b"], "wordpiece", 2), "2"),
    Mistake("a module that does not exist", lambda m: kt.hub.HubLayer(str(m.folder / "module")), "module"),
]


def adapter_only(models):
    folder = models.folder / "peft"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}', "utf-8")
    return folder


def with_head(models):
    folder = models.folder / "task"
    models.bert_classifier().save_pretrained(folder)
    return folder


def reordered(models, **options):
    path = models.folder / "saved.weights.h5"
    models.classifier(label_names=["a", "b"]).save_weights(path)
    models.classifier(label_names=["b", "a"]).load_weights(path, **options)
