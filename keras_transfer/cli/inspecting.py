"""`keras-transfer inspect`: one page about a model, next to its start if that is given."""

import pathlib

from keras_transfer import analysis, datasets, tasks
from keras_transfer.checkpoints import load_preprocessor
from keras_transfer.cli.labelled_texts import FORM, read_column, read_texts
from keras_transfer.cli.models import find_model, kind_of, load_model, trained_model
from keras_transfer.cli.progress import bar_or_lines
from keras_transfer.cli.scores import check_writable
from keras_transfer.core.expect import expect
from keras_transfer.encoders import Encoder


def inspect(model, data, text_column, label_column, against, report, no_labels, pairs, label_separator=None, **options):
    """Prints what an inspection finds, and writes its page."""
    check_writable("--report", report, new_folders=True)
    path, model = model, load_model(find_model(model))
    form = {name: options.pop(name) for name in FORM if name != "label_separator"}
    kind = "text" if isinstance(model, tasks.Seq2SeqLM) else kind_of(model)
    if isinstance(model, (tasks.TokenClassifier, tasks.SpanExtractor)):
        given = (text_column, label_column, label_separator, *form.values())
        rule = "Files of tagged words or of questions have no columns to choose. Leave out the options of tables."
        expect(given == ("text", ["label"], None, None, None, False), rule, given)
        columns = _words(data, no_labels) if isinstance(model, tasks.TokenClassifier) else _questions(data)
        columns = (columns[0], None) if no_labels else columns
    elif no_labels or kind is None:
        rule = "Only labels of classes, targets, and one number for each text are read. Pass `--no-labels`."
        fits = no_labels or not isinstance(model, tasks.TextRegressor)
        expect(fits, rule, label_column=label_column, num_targets=getattr(model, "num_targets", None))
        columns = read_column(data, text_column, **form)
    else:
        columns = read_texts(data, text_column, label_column, kind, label_separator, **form)
    if against is not None:
        own = trained_model(against)
        # An encoder alone would read the texts with the tokenizer of the model.
        parts = () if own else (Encoder.from_pretrained(against), load_preprocessor(against))
        against = load_model(own) if own else tasks.TextEmbedder(*parts)
    options |= {"pairs": None if pairs is None else datasets.load_blimp(pairs), "verbose": bar_or_lines()}
    found = analysis.inspect(model, columns, against, **options)
    print(f"\n{found}\n\nThe page is in {found.to_html(report, title=f'Inspection of {path}')}")


def _words(data, no_labels):
    """Returns the sentences of a CoNLL-U file with their trees, or of a CoNLL file with the labels of words."""
    if ".conllu" not in pathlib.Path(data).suffixes:
        return datasets.read_conll(data)
    if no_labels:  # Then it may have no trees.
        return datasets.read_conllu(data, field="feats")
    return datasets.read_trees(data)


def _questions(data):
    """Returns the questions and contexts of a file of SQuAD, and their answers."""
    found = datasets.load_squad(data)
    return (found.questions, found.contexts), found.answers
