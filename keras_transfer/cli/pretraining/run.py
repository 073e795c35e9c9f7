"""`keras-transfer pretrain`: pretrains a language model on files of text. A run can continue after Ctrl-C or a kill."""

import math
import shlex
import signal

import keras

from keras_transfer import adaptation, tasks, text
from keras_transfer.checkpoints.cards import CARD, keep_own_card, remove_card
from keras_transfer.cli.actions import bar_or_lines
from keras_transfer.cli.files import CHECKPOINTS, run_folder
from keras_transfer.cli.pretraining.plans import GENERATOR, PLANS, continued_model, new_model, new_vocabulary
from keras_transfer.documents import read_documents
from keras_transfer.files import atomic_files
from keras_transfer.text.strings import count_words
from keras_transfer.training.runs import epochs_of_steps

CORPUS, VALIDATION_CORPUS, TOKENIZER = "corpus", "validation_corpus", "tokenizer"
_CONTENTS = (CHECKPOINTS, CORPUS, VALIDATION_CORPUS, TOKENIZER)
_EVERY = 1000  # Number of steps between training checkpoints.


def run_pretraining(
    corpus,
    validation_corpus,
    output,
    settings,
    overwrite=False,
    objective="masked",
    size="tiny",
    encoder=None,
    new_head=False,
    vocabulary_size=8000,
    sequence_length=128,
    batch_size=32,
    learning_rate=1e-3,
    epochs=1,
    steps=None,
    gradient_accumulation_steps=None,
    rematerialize=False,
    documents="blank_line",
    text_column="text",
    seed=0,
):
    """Pretrains a language model, and writes it as a checkpoint, with its tokenizer and the ids of the texts.

    On the first Ctrl-C (or SIGTERM) while the model trains, a training checkpoint is written, and the run ends. Before
    the training, the run ends at once. A call with the same settings continues it. The model of an earlier
    run is removed when the training begins.

    Args:
        corpus, validation_corpus: Lists of paths. The second may be empty.
        output: Path of the folder of the run.
        settings: Dict. The settings of the run.
        overwrite: Boolean. Whether to replace a finished run, or a run with different settings. Defaults to `False`.
        objective, size: Strings. Keys of `OBJECTIVES` and `SIZES`.
        encoder: Checkpoint to continue with, in place of `size` and `vocabulary_size`. Defaults to `None`.
        new_head: Boolean. Whether the head of the objective is new. Defaults to `False`: the checkpoint has one.
        vocabulary_size, sequence_length, batch_size, learning_rate, epochs, seed: Numbers.
        steps: Integer. Number of steps, in place of `epochs`, rounded up to epochs of equal length, and for windows of
            texts to whole epochs. Defaults to `None`.
        gradient_accumulation_steps: Integer. Number of batches for one update of the weights. Defaults to `None`, one.
        rematerialize: Boolean. Whether to compute blocks twice to save memory. Defaults to `False`.
        documents, text_column: As for `text.Corpus.build`.

    Returns:
        The number of the signal that ended the run, or None if it is finished.
    """
    keras.utils.set_random_seed(seed)
    plan, verbose = PLANS[objective], bar_or_lines()
    with run_folder.running(output, settings, overwrite, _CONTENTS) as folder:
        if encoder is not None:
            model = continued_model(plan, encoder, sequence_length, batch_size, new_head)
        else:
            preprocessor = _vocabulary(plan, corpus, folder, (vocabulary_size, sequence_length, text_column))
            model = new_model(plan, preprocessor, size, batch_size)
        print(f"{type(model).__name__} with {model.count_params():,} parameters")
        # The corpus for validation comes first, so that an error in the small one does not wait for the large one.
        corpora, rows = {}, {}
        for name, paths in ((VALIDATION_CORPUS, validation_corpus), (CORPUS, corpus)):
            if paths:
                reading = {"documents": documents, "text_column": text_column, "verbose": verbose == 1}
                corpora[name] = text.Corpus.build(paths, model.preprocessor, folder / name, **reading)
                batching = {"batch_size": batch_size, "shuffle": name == CORPUS, "seed": seed}
                rows[name] = plan.rows(corpora[name], sequence_length, **batching)
        training, validation = rows[CORPUS], rows.get(VALIDATION_CORPUS)
        if steps is not None:
            epochs, length = epochs_of_steps(training, len(training), steps)
            training = training if length == len(training) else training.take(length)
        total = epochs * len(training)
        accumulated = None if gradient_accumulation_steps == 1 else gradient_accumulation_steps
        built = corpora[CORPUS]
        print(f"{built.num_tokens:,} tokens in {built.num_documents:,} documents, {total:,} steps")
        if rematerialize:
            adaptation.rematerialize(model)
        model.compile(plan.optimizer(learning_rate, total, accumulated))
        checkpoint = adaptation.TrainingCheckpoint(
            folder / CHECKPOINTS, save_every=_EVERY, keep=1, signals=("SIGINT", "SIGTERM")
        )
        averages = plan.is_recurrent and validation is not None
        run_folder.remove_old_model(folder)
        remove_card(folder)
        model.fit(
            training,
            validation_data=validation,
            epochs=epochs,
            # The checkpoint comes last, so that it contains the state of the other callback.
            callbacks=[*([adaptation.NonMonotonicTrigger()] if averages else []), checkpoint],
            verbose=verbose,
        )
        if checkpoint.stopped_by:
            print(f"\nThe run was stopped. The same command continues it from {folder / CHECKPOINTS}")
            return int(signal.Signals[checkpoint.stopped_by])
        if validation is not None:
            scores = model.evaluate(validation, verbose=0, return_dict=True)
            words = _count_words(validation_corpus, documents, text_column) if plan.task is tasks.CausalLM else None
            print(f"\nValidation texts: {_scores(plan, scores, corpora[VALIDATION_CORPUS].num_tokens, words)}")
        _write(model, folder)
        run_folder.finish(folder)
    _say_what_next(folder, objective)
    return None


def _vocabulary(plan, paths, folder, options):
    """Returns the preprocessor of a run, whose vocabulary is trained when the run begins."""
    if not (folder / TOKENIZER).exists():
        print(f"Training a vocabulary of {options[0]:,} tokens")
        preprocessor = new_vocabulary(plan, paths, *options)
        preprocessor.save(folder / TOKENIZER)
    return plan.preprocessor.load(folder / TOKENIZER, sequence_length=plan.text_length(options[1]))


def _count_words(paths, documents, text_column):
    """Returns the number of words, and of documents, each of which ends with a token."""
    lines = read_documents(paths, text_column, documents)
    return sum(1 + sum(map(count_words, document)) for document in lines if document)


def _scores(plan, scores, num_tokens=0, num_words=None):
    if plan.has_perplexity:
        scores = {"perplexity": _exp(scores["loss"]), **scores}
    if num_words is not None:
        nats = math.log(scores["perplexity"]) * num_tokens / num_words
        scores = {"perplexity": scores["perplexity"], "perplexity_per_word": _exp(nats), **scores}
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def _exp(value):
    return math.inf if value > 700 else math.exp(value)


def _write(model, folder):
    """Writes a model as a checkpoint into the folder of its run."""
    with atomic_files(folder) as new:
        written = new / folder.name  # The model card has this name.
        model.save_pretrained(written)
        if keep_own_card(folder, written):
            print(f"{folder / CARD} is yours, and is kept")
        names = {path.name for path in written.iterdir()} - {CARD}  # The user may edit it later.
        run_folder.name_files(folder, [GENERATOR, *names])
        if isinstance(model, tasks.ReplacedTokenDetection) and model.generator is not None:
            model.generator.save_pretrained(new / GENERATOR)
            model.preprocessor.save(new / GENERATOR)
        for path in [*written.iterdir()]:
            path.rename(new / path.name)
        written.rmdir()


def _say_what_next(folder, objective):
    name = shlex.quote(str(folder))
    print(f"\nThe model is in {folder}. To use it:")
    if PLANS[objective].task is tasks.CausalLM:
        print(f'keras-transfer generate {name} "Once upon a time"')
    print(f"keras-transfer train --data FILE.csv --encoder {name}")
