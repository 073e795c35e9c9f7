"""`keras-transfer pretrain`, whose runs can continue after Ctrl-C or a kill, and `generate` with its models."""

import dataclasses
import math
import os
import pathlib
import shlex
import signal
import types
from collections.abc import Callable
from typing import ClassVar

import keras

from keras_transfer import adaptation, encoders, objectives, tasks, text
from keras_transfer.callbacks import NonMonotonicTrigger, TrainingCheckpoint
from keras_transfer.checkpoints import CARD, architecture_for, check_head, keep_own_card, remove_card
from keras_transfer.cli import run_folder
from keras_transfer.cli.progress import bar_or_lines
from keras_transfer.cli.run_folder import CHECKPOINTS
from keras_transfer.core.documents import read_documents
from keras_transfer.core.expect import one_of
from keras_transfer.core.files import atomic_files
from keras_transfer.encoders import have_same_embeddings
from keras_transfer.optimizers import NTASGD, FusedAdamW, schedules
from keras_transfer.text import count_words
from keras_transfer.training import epochs_of_steps
from keras_transfer_command import (
    ELECTRA_RATES,
    ELECTRA_SIZES,
    LSTM_SIZES,
    RATE_OF_CHECKPOINT,
    RATE_OF_LSTM,
    RATES,
    SIZES,
)

LENGTH, WINDOW = 128, 70  # Tokens of a row, and of an LSTM's part of a text.

CORPUS, VALIDATION_CORPUS, TOKENIZER = "corpus", "validation_corpus", "tokenizer"
_CONTENTS = (CHECKPOINTS, CORPUS, VALIDATION_CORPUS, TOKENIZER)
_EVERY = 1000  # Number of steps between training checkpoints.
GENERATOR = "generator"  # The folder of an ELECTRA's generator.

# The rates for WikiText-2.
_LSTM_DROPOUT = {"embedding": 0.1, "input": 0.65, "hidden": 0.2, "output": 0.4, "weight": 0.5}

_LONGEST_TEXT = 512  # Windows are parts of texts.
_LEAST_WIDTH = 64  # Of ELECTRA's generator.
_LINES_IN_MEMORY = 1_000_000  # A unigram vocabulary is trained on at most this number of lines.


def pretrain(corpus, validation_corpus, output, overwrite, **options):
    """Pretrains a language model, and writes it as a checkpoint, with its tokenizer and the ids of the texts.

    On the first Ctrl-C (or SIGTERM) while the model trains, a training checkpoint is written, and the run ends. Before
    the training, the run ends at once. A call with the same settings continues it. The model of an earlier run is
    removed when the training begins. The result is 128 plus the number of the signal that ended the run, or 0 if it is
    finished.

    Args:
        **options: The other options of the command, which are the settings of the run. `steps` are rounded up to epochs
            of equal length, and for windows of texts to whole epochs.
    """
    plan, verbose = PLANS[options["objective"]], bar_or_lines()
    options = _complete(plan, options)
    given = types.SimpleNamespace(**options)
    if given.encoder is not None and os.path.realpath(given.encoder) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    files = {CORPUS: corpus, VALIDATION_CORPUS: validation_corpus}
    settings = {**{name: run_folder.describe_files(paths) for name, paths in files.items()}, **options}
    run_folder.check_run(output, settings, overwrite)
    files = {name: [pathlib.Path(path) for path in paths] for name, paths in files.items()}
    keras.utils.set_random_seed(given.seed)
    with run_folder.running(output, settings, overwrite, _CONTENTS) as folder:
        if given.encoder is not None:
            model = plan.continued_model(given.encoder, given.sequence_length, given.batch_size, given.new_head)
        else:
            preprocessor = _vocabulary(plan, files[CORPUS], folder, given)
            model = plan.new_model(preprocessor, given.size, given.batch_size)
        print(f"{type(model).__name__} with {model.count_params():,} parameters")
        # The corpus for validation comes first, so that an error in the small one does not wait for the large one.
        corpora, rows = {}, {}
        for name in (VALIDATION_CORPUS, CORPUS):
            if files[name]:
                reading = {"documents": given.documents, "text_column": given.text_column, "verbose": verbose == 1}
                corpora[name] = text.Corpus.build(files[name], model.preprocessor, folder / name, **reading)
                batching = {"batch_size": given.batch_size, "shuffle": name == CORPUS, "seed": given.seed}
                rows[name] = plan.rows(corpora[name], given.sequence_length, **batching)
        training, validation, epochs = rows[CORPUS], rows.get(VALIDATION_CORPUS), given.epochs
        if given.steps is not None:
            epochs, length = epochs_of_steps(training, len(training), given.steps)
            training = training if length == len(training) else training.take(length)
        total = epochs * len(training)
        built = corpora[CORPUS]
        print(f"{built.num_tokens:,} tokens in {built.num_documents:,} documents, {total:,} steps")
        if given.rematerialize:
            adaptation.rematerialize(model)
        accumulated = None if given.gradient_accumulation_steps == 1 else given.gradient_accumulation_steps
        model.compile(plan.optimizer(given.learning_rate, total, accumulated))
        checkpoint = TrainingCheckpoint(folder / CHECKPOINTS, save_every=_EVERY, keep=1, signals=("SIGINT", "SIGTERM"))
        run_folder.remove_old_model(folder)
        remove_card(folder)
        model.fit(
            training,
            validation_data=validation,
            epochs=epochs,
            # The checkpoint comes last, so that it contains the state of the other callback.
            callbacks=[*([] if validation is None else plan.callbacks()), checkpoint],
            verbose=verbose,
        )
        if checkpoint.stopped_by:
            print(f"\nThe run was stopped. The same command continues it from {folder / CHECKPOINTS}")
            return 128 + int(signal.Signals[checkpoint.stopped_by])
        if validation is not None:
            scores, words = model.evaluate(validation, verbose=0, return_dict=True), None
            if plan.task is tasks.CausalLM:
                words = _count_words(files[VALIDATION_CORPUS], given.documents, given.text_column)
            print(f"\nValidation texts: {_scores(plan, scores, corpora[VALIDATION_CORPUS].num_tokens, words)}")
        _write(model, folder)
        run_folder.finish(folder)
    name = shlex.quote(str(folder))
    print(f"\nThe model is in {folder}. To use it:")
    if plan.task is tasks.CausalLM:
        print(f'keras-transfer generate {name} "Once upon a time"')
    print(f"keras-transfer train --data FILE.csv --encoder {name}")
    return 0


def _complete(plan, options):
    """Returns the options of a run with the defaults that depend on others. Raises an error if some do not match."""
    size, words, is_new = options["size"], options["vocabulary_size"], options["encoder"] is None
    if is_new:
        size, words = size or "tiny", words or 8000
        one_of(*plan.sizes).check("size", size)
        if options["new_head"]:
            raise ValueError(
                "`--new-head` can be used only with `--encoder`. Leave it out: a new model has a new head."
            )
    elif words is not None:
        raise ValueError("`--encoder` and `--vocabulary-size` cannot be combined: the checkpoint has a vocabulary.")
    if plan.is_recurrent and (options["gradient_accumulation_steps"] is not None or options["rematerialize"]):
        raise ValueError("`--gradient-accumulation-steps` and `--rematerialize` cannot be used with an LSTM.")
    return {
        **options,
        "size": size,
        "vocabulary_size": words,
        "sequence_length": options["sequence_length"] or plan.length,
        "learning_rate": options["learning_rate"] or plan.rate(size),
        "epochs": options["epochs"] if options["steps"] is not None else options["epochs"] or 10,
    }


def _vocabulary(plan, paths, folder, given):
    """Returns the preprocessor of a run, whose vocabulary is trained when the run begins."""
    kind, special_tokens, preprocessor, packing = plan.of_text
    length = plan.text_length(given.sequence_length)
    if not (folder / TOKENIZER).exists():
        print(f"Training a vocabulary of {given.vocabulary_size:,} tokens")
        options = {"special_tokens": special_tokens, "text_column": given.text_column}
        options |= {"sample": _LINES_IN_MEMORY} if kind == "unigram" else {}
        tokenizer = text.train_vocabulary(paths, kind, given.vocabulary_size, **options)
        text.TokenPreprocessor(tokenizer, packing, length).save(folder / TOKENIZER)
    return preprocessor.load(folder / TOKENIZER, sequence_length=length)


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


# === What is trained ===


def _blocks(packing):
    return lambda corpus, *arguments, **options: corpus.blocks(*arguments, packing=packing, **options)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a Transformer is pretrained with an objective.

    Attributes:
        of_text: Tuple of the kind of vocabulary, its special tokens, the class of preprocessor and its packing.
        rows: Function that returns `Batches`, given a corpus and the further arguments of `Corpus.blocks`.
        has_perplexity: Boolean. Whether the loss is the mean over tokens that are predicted from the vocabulary.
        settings: Dict of further arguments of the encoder. `None` leaves an argument out.
    """

    task: type
    encoder: type
    of_text: tuple
    rows: Callable
    has_perplexity: bool = True
    settings: dict = dataclasses.field(default_factory=dict)

    sizes: ClassVar[dict] = SIZES
    rates: ClassVar[dict] = RATES
    length: ClassVar[int] = LENGTH
    is_recurrent: ClassVar[bool] = False

    def rate(self, size):
        """Returns the default of the learning rate, for a new model of a size or for a checkpoint (`None`)."""
        return RATE_OF_CHECKPOINT if size is None else self.rates[size]

    def optimizer(self, learning_rate, total_steps, accumulated=None):
        """Returns the optimizer of a run.

        Args:
            accumulated: Integer. Number of batches for one update, at least 2. Defaults to `None`, one.
        """
        schedule = schedules.LinearWarmupDecay(learning_rate, total_steps=total_steps)
        options = {"weight_decay": 0.01, "global_clipnorm": 1.0, "gradient_accumulation_steps": accumulated}
        return FusedAdamW(schedule, **options)

    def callbacks(self):
        """Returns the callbacks of a run with validation."""
        return []

    def text_length(self, sequence_length):
        """Returns the largest number of ids of a text that the preprocessor keeps, given the length of a row."""
        return sequence_length

    def arguments(self, size, preprocessor):
        """Returns a dict of the arguments of a new encoder."""
        names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
        lengths = {"max_sequence_length": max(512, preprocessor.sequence_length)}
        found = {**dict(zip(names, self.sizes[size])), **lengths, **self.settings}
        return {name: value for name, value in found.items() if value is not None}

    def new_model(self, preprocessor, size, batch_size):
        """Returns a task with random weights."""
        encoder = self.encoder(preprocessor.vocabulary_size, **self.arguments(size, preprocessor))
        return self.task(encoder, preprocessor, **self.task_options(batch_size))

    def task_options(self, batch_size):
        """Returns further arguments of a new task."""
        return {}

    def continued_model(self, source, sequence_length, batch_size, new_head):
        """Returns the task of a checkpoint."""
        options = {
            "sequence_length": sequence_length,
            **self.options_of(source),
            **({"head": "new"} if new_head else {}),
        }
        return self.checked(self.task.from_pretrained(source, **options))

    def options_of(self, source):
        """Returns further arguments of the task of a checkpoint."""
        return {}

    def checked(self, model):
        """Returns a model if it can be written as a checkpoint."""
        advice = "Choose another `--objective` for this `--encoder`."
        check_head(architecture_for(model.encoder), model, "written", advice)
        return model


class RecurrentPlan(Plan):
    """How an AWD-LSTM is pretrained, which carries a state from window to window of the texts."""

    sizes, length, is_recurrent = LSTM_SIZES, WINDOW, True

    def rate(self, size):
        return RATE_OF_LSTM

    def optimizer(self, learning_rate, total_steps, accumulated=None):
        return NTASGD(learning_rate, weight_decay=1.2e-6, global_clipnorm=0.25)

    def callbacks(self):
        return [NonMonotonicTrigger()]

    def text_length(self, sequence_length):
        return _LONGEST_TEXT

    def arguments(self, size, preprocessor):
        num_layers, embedding_dim, units, factor = self.sizes[size]
        dropout = {f"{name}_dropout": factor * rate for name, rate in _LSTM_DROPOUT.items()}
        penalties = {"activation_penalty": 2.0, "temporal_penalty": 1.0}
        return {"num_layers": num_layers, "embedding_dim": embedding_dim, "units": units, **dropout, **penalties}

    def task_options(self, batch_size):
        return {"streams": batch_size}

    def continued_model(self, source, sequence_length, batch_size, new_head):
        model = self.task.from_pretrained(source, **({"head": "new"} if new_head else {}))
        if not isinstance(model.encoder, self.encoder):
            raise ValueError(
                "`--objective awd-lstm` continues an AWD-LSTM. Use `--objective causal` for other language models. "
                f"Received: --encoder {source}, with a {type(model.encoder).__name__}"
            )
        return self.checked(self.task(model.encoder, model.preprocessor, **self.task_options(batch_size)))


class ElectraPlan(Plan):
    """How an ELECTRA is pretrained together with its generator."""

    sizes, rates = ELECTRA_SIZES, ELECTRA_RATES

    def new_model(self, preprocessor, size, batch_size):
        *_, embedding_dim, fraction, hidden_rate = self.sizes[size]
        arguments = {**self.arguments(size, preprocessor), "embedding_dim": embedding_dim}
        small = {**arguments, **_sizes_of_generator(arguments["hidden_dim"], fraction)}
        return self.task(
            self.encoder(preprocessor.vocabulary_size, **arguments),
            preprocessor,
            generator=tasks.MaskedLM(self.encoder(preprocessor.vocabulary_size, **small)),
            share_embeddings=True,
            objective=_masking(hidden_rate),
        )

    def options_of(self, source):
        """Returns the generator and its objective.

        The generator comes from the folder of the checkpoint, or is a new, smaller one. The paper's model of the same
        size determines its width and the fraction of hidden tokens.
        """
        folder, encoder = pathlib.Path(source) / GENERATOR, encoders.Encoder.from_pretrained(source)
        of_sizes = {sizes[:2]: sizes[-2:] for sizes in self.sizes.values()}
        sizes = getattr(encoder, "num_layers", None), getattr(encoder, "hidden_dim", None)
        fraction, hidden_rate = of_sizes.get(sizes, (1 / 4, 0.15))
        options = {"objective": _masking(hidden_rate)}
        if folder.is_dir():
            generator = tasks.MaskedLM.from_pretrained(folder, preprocessor=None)
            shares = have_same_embeddings(generator.encoder, encoder)
            return {"generator": generator, "share_embeddings": shares, **options}
        if not isinstance(encoder, self.encoder):
            raise ValueError(
                "`--objective electra` requires an ELECTRA as `--encoder`, because only its checkpoints have the head. "
                f"Received: {source}, of a {type(encoder).__name__}"
            )
        config = {name: value for name, value in encoder.get_config().items() if name not in ("name", "pooling")}
        small = self.encoder.from_config({**config, **_sizes_of_generator(encoder.hidden_dim, fraction)})
        return {"generator": tasks.MaskedLM(small), "share_embeddings": True, **options}


def _masking(hidden_rate):
    return objectives.TokenMasking(hidden_rate, mask_token_rate=0.85, random_token_rate=0.0)


def _sizes_of_generator(hidden_dim, fraction):
    width = max(round(fraction * hidden_dim), _LEAST_WIDTH)
    num_heads = next(count for count in range(width // _LEAST_WIDTH, 0, -1) if width % count == 0)
    return {"hidden_dim": width, "intermediate_dim": 4 * width, "num_heads": num_heads}


_OF_BERT = (
    "wordpiece",
    ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    text.BertPreprocessor,
    text.Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], segments=(0, 1)),
)
_OF_XLNET = (
    "unigram",
    ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<sep>", "<cls>"),
    text.TokenPreprocessor,
    text.Packing(between=["<sep>"], end=["<sep>", "<cls>"], pad="<pad>", segments=(0, 1, 2)),
)
_OF_GPT2 = (
    "byte_bpe",
    ("<pad>", "<unk>", "<s>", "<|endoftext|>", "<mask>"),
    text.TokenPreprocessor,
    text.Packing(pad="<pad>"),
)
_XLNET = {"two_streams": True, "max_sequence_length": None}  # Its distances have no limit.
PLANS = {
    "masked": Plan(tasks.MaskedLM, encoders.BertEncoder, _OF_BERT, _blocks("full_sentences")),
    "bert": Plan(tasks.BertPretraining, encoders.BertEncoder, _OF_BERT, text.Corpus.pairs, False),
    "electra": ElectraPlan(
        tasks.ReplacedTokenDetection, encoders.ElectraEncoder, _OF_BERT, _blocks("full_sentences"), False
    ),
    "permutation": Plan(
        tasks.PermutationLM, encoders.XLNetEncoder, _OF_XLNET, _blocks("full_sentences"), settings=_XLNET
    ),
    "causal": Plan(tasks.CausalLM, encoders.GPT2Encoder, _OF_GPT2, _blocks("stream")),
    "awd-lstm": RecurrentPlan(
        tasks.CausalLM,
        encoders.AWDLSTMEncoder,
        _OF_GPT2,
        lambda corpus, length, *, batch_size, shuffle, seed: corpus.streams(batch_size, length, seed=seed),
    ),
}


def generate(model, prompts, max_new_tokens, sampler, seed):
    """Prints each prompt, followed by the text that a causal language model generates for it."""
    if run_folder.is_unfinished(model) and not (pathlib.Path(model) / "config.json").exists():
        raise FileNotFoundError(
            f"The run is not finished. `keras-transfer pretrain` with the same settings continues it. Received: {model}"
        )
    task = tasks.CausalLM.from_pretrained(model)
    found = task.generate(prompts, max_new_tokens=max_new_tokens, sampler=sampler, seed=seed)
    print("\n\n".join(prompt + continuation for prompt, continuation in zip(prompts, found)))
