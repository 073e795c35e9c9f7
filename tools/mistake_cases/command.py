"""Mistakes at the command line."""

import keras_transfer as kt
from mistake_cases.models import NAMES, Mistake


def train(*arguments, table="text,label\na,1\nb,0\n", name="t.csv"):
    """Runs `train` on a table."""
    return lambda models: models.command("train", "--data", models.write(name, table), *arguments)


def pretrain(*arguments):
    """Runs `pretrain` on a file of text."""
    return lambda models: models.command("pretrain", "--corpus", models.write("c.txt", "a b c\n"), *arguments)


def over_encoder(models):
    folder = models.saved_encoder()
    return pretrain("--encoder", folder, "--output", folder)(models)


def predict(*arguments, table="text\na\nb\n"):
    """Runs `predict` with a saved model on a table."""
    return lambda models: models.command(
        "predict", models.model_file(), "--data", models.write("t.csv", table), *arguments
    )


def nan(models):
    path = str(models.folder / "model.keras")
    models.nan(label_names=NAMES).save(path)
    return models.command("predict", path, "--data", models.write("t.csv", "text\na\n"))


def pairs(models):
    path, model = str(models.folder / "model.keras"), models.classifier(label_names=NAMES)
    model.fitted_on = "texts"
    model.save(path)
    return models.command("export", path, "--output", "o", "--pairs")


def adapted(models):
    """A classifier with two adapters."""
    model = models.bert_classifier(label_names=NAMES)
    for name in ("acme", "globex"):
        kt.adaptation.add_adapters(model, "bitfit", name=name)
    models.forget()
    return models.watch(model, None)


def unknown_adapter(models):
    path = str(models.folder / "model.keras")
    adapted(models).save(path)
    return models.command("predict", path, "--data", models.write("t.csv", "text\na\n"), "--adapter", "acm")


def unnamed_adapter(models):
    folder = models.folder / "served"
    kt.serving.export(adapted(models), folder, adapters=["acme", "globex"], verbose=0)
    return models.command("classify", folder, "a")


MISTAKES = [
    Mistake("an unknown command", lambda m: m.command("trian"), "train"),
    Mistake("an unknown option", train("--epoch-count", "2"), "--epoch"),
    Mistake("an unknown recipe", train("--recipe", "brt"), "bert"),
    Mistake("an unknown task", train("--task", "classify"), "classification"),
    Mistake("no data", lambda m: m.command("train"), "--data"),
    Mistake("a file that does not exist", lambda m: m.command("train", "--data", "nothing.csv"), "nothing.csv"),
    Mistake("a column that does not exist", train("--text-column", "body"), "--text-column.*body|body.*--text-column"),
    Mistake(
        "a label column that does not exist",
        train("--label-column", "class"),
        "--label-column.*class|class.*--label-column",
    ),
    Mistake(
        "one column for texts and labels",
        train("--text-column", "text", "--label-column", "text"),
        "--label-column|same column",
    ),
    Mistake("one class", train(table="text,label\na,1\nb,1\n"), "class|label"),
    Mistake("an empty table", train(table="text,label\n"), "no |empty"),
    Mistake("an empty text column", train(table="label\n1\n"), "text"),
    Mistake(
        "numbers for --task regression that are names",
        train("--task", "regression", table="text,label\na,good\nb,bad\n"),
        "good|number",
    ),
    Mistake("epochs that are no number", train("--epochs", "two"), "two"),
    Mistake("no epochs", train("--epochs", "0"), "epochs"),
    Mistake("a negative learning rate", train("--learning-rate", "-1"), "learning.rate"),
    Mistake("batch size 0", train("--batch-size", "0"), "batch.size"),
    Mistake(
        "an encoder that does not exist",
        train("--encoder", "nothing", table="text,label\n" + "a,1\nb,0\n" * 5),
        "nothing",
    ),
    Mistake(
        "an output folder that is a file",
        lambda m: m.command("train", "--data", m.table(), "--output", m.write("out", "x")),
        "out",
    ),
    Mistake("an unknown kind of table", train(name="t.xlsx"), "csv"),
    Mistake(
        "validation labels that are not in training",
        lambda m: m.command(
            "train", "--data", m.table(), "--validation-data", m.write("v.csv", "text,label\na,maybe\n")
        ),
        "maybe",
    ),
    Mistake(
        "a model that does not exist",
        lambda m: m.command("predict", "nothing.keras", "--data", m.table()),
        "nothing.keras",
    ),
    Mistake(
        "a folder without a model", lambda m: m.command("evaluate", m.saved_encoder(), "--data", m.table()), "model"
    ),
    Mistake(
        "a file that is no model",
        lambda m: m.command("predict", m.write("a.keras", "x"), "--data", m.table()),
        "a.keras",
    ),
    Mistake("an input without the column", predict(table="body\na\n"), "text"),
    Mistake("a column of predictions that exists", predict(table="text,prediction\na,b\n"), "prediction"),
    Mistake(
        "an output that exists",
        lambda m: m.command(
            "predict", m.model_file(), "--data", m.write("t.csv", "text\na\n"), "--output", m.write("o.csv", "x")
        ),
        "--overwrite|overwrite",
    ),
    Mistake("a model that is not a number", nan, "NaN|not finite|nan"),
    Mistake(
        "labels that the model does not know",
        lambda m: m.command("evaluate", m.model_file(), "--data", m.write("t.csv", "text,label\na,maybe\n")),
        "maybe",
    ),
    Mistake(
        "classify with a table",
        lambda m: m.command("classify", m.write("t.csv", "text\na\n"), "a"),
        "must be a .keras file",
    ),
    Mistake(
        "classify with adapters that a model lacks",
        lambda m: m.command("classify", m.model_file(), "a", "--adapter", "acme"),
        "Adapters are added to the blocks of a Transformer encoder",
    ),
    Mistake("predict with an unknown adapter", unknown_adapter, "some of.*'acme'"),
    Mistake("classify by an export of several adapters", unnamed_adapter, "--adapter.*'acme', 'globex'"),
    Mistake(
        "export of a table", lambda m: m.command("export", m.write("t.csv", "x"), "--output", "o"), "must be a .keras"
    ),
    Mistake("export without an output", lambda m: m.command("export", m.model_file()), "--output"),
    Mistake(
        "export of pairs from a model of single texts",
        pairs,
        "Leave out `--pairs`",
    ),
    Mistake(
        "export of a SavedModel with quantization",
        lambda m: m.command("export", m.model_file(), "--output", "o", "--quantization", "float16"),
        "format='litert'",
    ),
    Mistake(
        "export as ONNX in float16",
        lambda m: m.command("export", m.model_file(), "--output", "o", "--format", "onnx", "--quantization", "float16"),
        "int8_dynamic",
    ),
    Mistake("info on a folder that does not exist", lambda m: m.command("info", "nothing"), "nothing"),
    Mistake(
        "compare with an unknown recipe",
        lambda m: m.command("compare", "--data", m.table(), "--methods", "brt"),
        "bert",
    ),
    Mistake("compare with no seeds", lambda m: m.command("compare", "--data", m.table(), "--seeds", "0"), "seeds"),
    Mistake(
        "pretrain with a size that no LSTM has",
        pretrain("--objective", "awd-lstm", "--size", "tutorial"),
        "--size.*tiny",
    ),
    Mistake(
        "pretrain with a size that only an ELECTRA has",
        pretrain("--objective", "masked", "--size", "large"),
        "--size.*tiny",
    ),
    Mistake("pretrain into the folder of the encoder", over_encoder, "--output"),
    Mistake(
        "pretrain an ELECTRA from a BERT",
        lambda m: pretrain("--objective", "electra", "--encoder", m.saved_encoder(), "--new-head")(m),
        "ELECTRA",
    ),
    Mistake("trec6 without its folder", lambda m: m.command("quickstart", "--dataset", "trec6"), "--data-dir"),
]
