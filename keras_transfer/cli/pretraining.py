"""`keras-transfer pretrain`, whose runs can continue after Ctrl-C or a kill, and `generate` with its models."""

import dataclasses
import math
import os
import pathlib
import shlex
import signal
from collections.abc import Callable

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

SIZES = {  # Blocks, width, heads, width of the feed-forward layers.
    "tiny": (2, 128, 2, 512),
    "mini": (4, 256, 4, 1024),
    "small": (4, 512, 8, 2048),
    "medium": (8, 512, 8, 2048),
    "base": (12, 768, 12, 3072),
    "tutorial": (16, 410, 10, 2100),
}
# As in `SIZES`, plus the width of the embeddings, the generator's width as a fraction, and the fraction of hidden
# tokens. For small, base and large, see table 6 of Clark et al. 2020.
ELECTRA_SIZES = {
    "tiny": (*SIZES["tiny"], 128, 1 / 4, 0.15),
    "mini": (*SIZES["mini"], 256, 1 / 4, 0.15),
    "small": (12, 256, 4, 1024, 128, 1 / 4, 0.15),
    "medium": (*SIZES["medium"], 512, 1 / 4, 0.15),
    "base": (*SIZES["base"], 768, 1 / 3, 0.15),
    "large": (24, 1024, 16, 4096, 1024, 1 / 4, 0.25),
}
# LSTMs, width of the embeddings, width of all LSTMs except the last one, factor of the paper's dropout rates.
LSTM_SIZES = {
    "tiny": (2, 128, 256, 0.1),
    "mini": (2, 256, 512, 0.25),
    "small": (3, 400, 600, 0.5),
    "medium": (3, 400, 1150, 0.75),
    "base": (3, 400, 1150, 1.0),
}
RATES = {"tiny": 1e-3, "mini": 7e-4, "small": 5e-4, "medium": 3e-4, "base": 1e-4, "tutorial": 2.5e-4}
ELECTRA_RATES = {**RATES, "base": 2e-4, "large": 2e-4}
RATE_OF_CHECKPOINT = 5e-5
RATE_OF_LSTM = 30.0
LENGTH, WINDOW = 128, 70  # Tokens of a row, and of an LSTM's part of a text.

CORPUS, VALIDATION_CORPUS, TOKENIZER = "corpus", "validation_corpus", "tokenizer"
_CONTENTS = (CHECKPOINTS, CORPUS, VALIDATION_CORPUS, TOKENIZER)
_EVERY = 1000  # Number of steps between training checkpoints.
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_GPT2 = ("<pad>", "<unk>", "<s>", "<|endoftext|>", "<mask>")
_XLNET = ("<pad>", "<unk>", "<s>", "</s>", "<mask>", "<sep>", "<cls>")
GENERATOR = "generator"  # The folder of an ELECTRA's generator.

# The rates for WikiText-2.
_LSTM_DROPOUT = {"embedding": 0.1, "input": 0.65, "hidden": 0.2, "output": 0.4, "weight": 0.5}

_LONGEST_TEXT = 512  # Windows are parts of texts.
_LEAST_WIDTH = 64  # Of ELECTRA's generator.
_LINES_IN_MEMORY = 1_000_000  # A unigram vocabulary is trained on at most this number of lines.
_BERT_ROW = text.Packing(["[CLS]"], ["[SEP]"], ["[SEP]"], segments=(0, 1))
_OF_BERT = ("wordpiece", _BERT, text.BertPreprocessor, _BERT_ROW)
_XLNET_ROW = text.Packing(between=["<sep>"], end=["<sep>", "<cls>"], pad="<pad>", segments=(0, 1, 2))
_OF_XLNET = ("unigram", _XLNET, text.TokenPreprocessor, _XLNET_ROW)
_OF_GPT2 = ("byte_bpe", _GPT2, text.TokenPreprocessor, text.Packing(pad="<pad>"))


def pretrain(
    corpus,
    validation_corpus,
    output,
    overwrite,
    objective,
    size,
    encoder,
    new_head,
    vocabulary_size,
    sequence_length,
    batch_size,
    learning_rate,
    epochs,
    steps,
    gradient_accumulation_steps,
    rematerialize,
    documents,
    text_column,
    seed,
):
    """Pretrains a language model, and writes it as a checkpoint, with its tokenizer and the ids of the texts.

    On the first Ctrl-C (or SIGTERM) while the model trains, a training checkpoint is written, and the run ends. Before
    the training, the run ends at once. A call with the same settings continues it. The model of an earlier run is
    removed when the training begins. The result is 128 plus the number of the signal that ended the run, or 0 if it is
    finished.

    Args:
        encoder: Checkpoint to continue with, in place of `size` and `vocabulary_size`.
        new_head: Boolean. Whether the head of the objective is new. Otherwise, the checkpoint has one.
        steps: Integer. Number of steps, in place of `epochs`, rounded up to epochs of equal length, and for windows of
            texts to whole epochs.
    """
    plan, verbose = PLANS[objective], bar_or_lines()
    if encoder is None:
        size, vocabulary_size = size or "tiny", vocabulary_size or 8000
        one_of(*plan.sizes).check("size", size)
        if new_head:
            raise ValueError(
                "`--new-head` can be used only with `--encoder`. Leave it out: a new model has a new head."
            )
    elif vocabulary_size is not None:
        raise ValueError("`--encoder` and `--vocabulary-size` cannot be combined: the checkpoint has a vocabulary.")
    if plan.is_recurrent and (gradient_accumulation_steps is not None or rematerialize):
        raise ValueError("`--gradient-accumulation-steps` and `--rematerialize` cannot be used with an LSTM.")
    if encoder is not None and os.path.realpath(encoder) == os.path.realpath(output):
        raise ValueError(f"`--output` must be a different folder from `--encoder`. Received: {output}")
    learning_rate = learning_rate or plan.rate(size)
    sequence_length = sequence_length or (WINDOW if plan.is_recurrent else LENGTH)
    epochs = epochs if steps is not None else epochs or 10
    settings = {
        "corpus": run_folder.describe_files(corpus),
        "validation_corpus": run_folder.describe_files(validation_corpus),
        "documents": documents,
        "text_column": text_column,
        "objective": objective,
        "size": size,
        "vocabulary_size": vocabulary_size,
        "encoder": encoder,
        "new_head": new_head,
        "sequence_length": sequence_length,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "epochs": epochs,
        "steps": steps,
        "gradient_accumulation_steps": gradient_accumulation_steps,
        "rematerialize": rematerialize,
        "seed": seed,
    }
    run_folder.check_run(output, settings, overwrite)
    corpus, validation_corpus = ([pathlib.Path(path) for path in paths] for paths in (corpus, validation_corpus))
    keras.utils.set_random_seed(seed)
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
        checkpoint = TrainingCheckpoint(folder / CHECKPOINTS, save_every=_EVERY, keep=1, signals=("SIGINT", "SIGTERM"))
        averages = plan.is_recurrent and validation is not None
        run_folder.remove_old_model(folder)
        remove_card(folder)
        model.fit(
            training,
            validation_data=validation,
            epochs=epochs,
            # The checkpoint comes last, so that it contains the state of the other callback.
            callbacks=[*([NonMonotonicTrigger()] if averages else []), checkpoint],
            verbose=verbose,
        )
        if checkpoint.stopped_by:
            print(f"\nThe run was stopped. The same command continues it from {folder / CHECKPOINTS}")
            return 128 + int(signal.Signals[checkpoint.stopped_by])
        if validation is not None:
            scores = model.evaluate(validation, verbose=0, return_dict=True)
            words = _count_words(validation_corpus, documents, text_column) if plan.task is tasks.CausalLM else None
            print(f"\nValidation texts: {_scores(plan, scores, corpora[VALIDATION_CORPUS].num_tokens, words)}")
        _write(model, folder)
        run_folder.finish(folder)
    _say_what_next(folder, objective)
    return 0


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


def _windows(corpus, length, *, batch_size, shuffle, seed):
    return corpus.streams(batch_size, length, seed=seed)


def _recurrent(preprocessor, sizes, streams):
    return tasks.CausalLM(encoders.AWDLSTMEncoder(preprocessor.vocabulary_size, **sizes), preprocessor, streams=streams)


def _permutation(preprocessor, sizes):
    # XLNet uses distances, which have no limit.
    sizes = {name: size for name, size in sizes.items() if name != "max_sequence_length"}
    encoder = encoders.XLNetEncoder(preprocessor.vocabulary_size, **sizes, two_streams=True)
    return tasks.PermutationLM(encoder, preprocessor)


def _masked(preprocessor, sizes):
    return tasks.MaskedLM(encoders.BertEncoder(preprocessor.vocabulary_size, **sizes), preprocessor)


def _electra(preprocessor, sizes, embedding_dim, fraction, hidden_rate):
    size, sizes = preprocessor.vocabulary_size, {**sizes, "embedding_dim": embedding_dim}
    small = {**sizes, **_sizes_of_generator(sizes["hidden_dim"], fraction)}
    return tasks.ReplacedTokenDetection(
        encoders.ElectraEncoder(size, **sizes),
        preprocessor,
        generator=tasks.MaskedLM(encoders.ElectraEncoder(size, **small)),
        share_embeddings=True,
        objective=_masking(hidden_rate),
    )


def _causal(preprocessor, sizes):
    return tasks.CausalLM(encoders.GPT2Encoder(preprocessor.vocabulary_size, **sizes), preprocessor)


def _blocks(packing):
    return lambda corpus, *arguments, **options: corpus.blocks(*arguments, packing=packing, **options)


def _bert(preprocessor, sizes):
    return tasks.BertPretraining(encoders.BertEncoder(preprocessor.vocabulary_size, **sizes), preprocessor)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a model is pretrained with an objective.

    Attributes:
        build: Function that returns the task, given a preprocessor and a dict of the encoder's arguments.
        rows: Function that returns `Batches`, given a corpus and the further arguments of `Corpus.blocks`.
        has_perplexity: Boolean. Whether the loss is the mean over tokens that are predicted from the vocabulary.
        is_recurrent: Boolean. Whether the model carries a state from window to window of the texts.
    """

    task: type
    build: Callable
    vocabulary: str
    special_tokens: tuple
    preprocessor: type
    packing: text.Packing
    rows: Callable
    has_perplexity: bool = True
    is_recurrent: bool = False
    sizes: dict = dataclasses.field(default_factory=lambda: SIZES)

    def rate(self, size):
        """Returns the default of the learning rate, for a new model of a size or for a checkpoint (`None`)."""
        if self.is_recurrent:
            return RATE_OF_LSTM
        rates = ELECTRA_RATES if self.sizes is ELECTRA_SIZES else RATES
        return RATE_OF_CHECKPOINT if size is None else rates[size]

    def optimizer(self, learning_rate, total_steps, accumulated=None):
        """Returns the optimizer of a run: AdamW with warmup and decay, or NT-ASGD for an AWD-LSTM.

        Args:
            accumulated: Integer. Number of batches for one update by AdamW, at least 2. Defaults to `None`, one.
        """
        if self.is_recurrent:
            return NTASGD(learning_rate, weight_decay=1.2e-6, global_clipnorm=0.25)
        schedule = schedules.LinearWarmupDecay(learning_rate, total_steps=total_steps)
        options = {"weight_decay": 0.01, "global_clipnorm": 1.0, "gradient_accumulation_steps": accumulated}
        return FusedAdamW(schedule, **options)

    def text_length(self, sequence_length):
        """Returns the largest number of ids of a text that the preprocessor keeps, given the length of a row."""
        return _LONGEST_TEXT if self.is_recurrent else sequence_length


PLANS = {
    "masked": Plan(tasks.MaskedLM, _masked, *_OF_BERT, _blocks("full_sentences")),
    "bert": Plan(tasks.BertPretraining, _bert, *_OF_BERT, text.Corpus.pairs, has_perplexity=False),
    "electra": Plan(
        tasks.ReplacedTokenDetection, _electra, *_OF_BERT, _blocks("full_sentences"), False, sizes=ELECTRA_SIZES
    ),
    "permutation": Plan(tasks.PermutationLM, _permutation, *_OF_XLNET, _blocks("full_sentences")),
    "causal": Plan(tasks.CausalLM, _causal, *_OF_GPT2, _blocks("stream")),
    "awd-lstm": Plan(tasks.CausalLM, _recurrent, *_OF_GPT2, _windows, is_recurrent=True, sizes=LSTM_SIZES),
}


def _masking(hidden_rate):
    return objectives.TokenMasking(hidden_rate, mask_token_rate=0.85, random_token_rate=0.0)


def _sizes_of_generator(hidden_dim, fraction):
    width = max(round(fraction * hidden_dim), _LEAST_WIDTH)
    num_heads = next(count for count in range(width // _LEAST_WIDTH, 0, -1) if width % count == 0)
    return {"hidden_dim": width, "intermediate_dim": 4 * width, "num_heads": num_heads}


def _electra_options(source):
    """Returns the arguments of `ReplacedTokenDetection` that continue the ELECTRA of a checkpoint.

    The generator comes from the folder of the checkpoint, or is a new, smaller one. The paper's model of the same size
    determines its width and the fraction of hidden tokens.
    """
    folder, encoder = pathlib.Path(source) / GENERATOR, encoders.Encoder.from_pretrained(source)
    of_sizes = {sizes[:2]: sizes[-2:] for sizes in ELECTRA_SIZES.values()}
    sizes = getattr(encoder, "num_layers", None), getattr(encoder, "hidden_dim", None)
    fraction, hidden_rate = of_sizes.get(sizes, (1 / 4, 0.15))
    options = {"objective": _masking(hidden_rate)}
    if folder.is_dir():
        generator = tasks.MaskedLM.from_pretrained(folder, preprocessor=None)
        shares = have_same_embeddings(generator.encoder, encoder)
        return {"generator": generator, "share_embeddings": shares, **options}
    if not isinstance(encoder, encoders.ElectraEncoder):
        raise ValueError(
            "`--objective electra` requires an ELECTRA as `--encoder`, because only its checkpoints have the head. "
            f"Received: {source}, of a {type(encoder).__name__}"
        )
    config = {name: value for name, value in encoder.get_config().items() if name not in ("name", "pooling")}
    small = encoders.ElectraEncoder.from_config({**config, **_sizes_of_generator(encoder.hidden_dim, fraction)})
    return {"generator": tasks.MaskedLM(small), "share_embeddings": True, **options}


def new_vocabulary(plan, paths, size, sequence_length, text_column):
    """Returns a preprocessor whose vocabulary is trained on files."""
    options = {"special_tokens": plan.special_tokens, "text_column": text_column}
    if plan.vocabulary == "unigram":
        options["sample"] = _LINES_IN_MEMORY
    tokenizer = text.train_vocabulary(paths, plan.vocabulary, size, **options)
    return text.TokenPreprocessor(tokenizer, plan.packing, plan.text_length(sequence_length))


def continued_model(plan, source, sequence_length, batch_size, new_head):
    """Returns the task of a checkpoint."""
    options = {"head": "new"} if new_head else {}
    if plan.task is tasks.ReplacedTokenDetection:
        options |= _electra_options(source)
    if not plan.is_recurrent:
        options["sequence_length"] = sequence_length
    model = plan.task.from_pretrained(source, **options)
    if plan.is_recurrent and not isinstance(model.encoder, encoders.AWDLSTMEncoder):
        raise ValueError(
            "`--objective awd-lstm` continues an AWD-LSTM. Use `--objective causal` for other language models. "
            f"Received: --encoder {source}, with a {type(model.encoder).__name__}"
        )
    if plan.is_recurrent:
        model = plan.task(model.encoder, model.preprocessor, streams=batch_size)
    check_head(architecture_for(model.encoder), model, "written", "Choose another `--objective` for this `--encoder`.")
    return model


def new_model(plan, preprocessor, size, batch_size):
    """Returns a task with random weights."""
    if plan.is_recurrent:
        num_layers, embedding_dim, units, factor = LSTM_SIZES[size]
        return plan.build(
            preprocessor,
            {
                **{"num_layers": num_layers, "embedding_dim": embedding_dim, "units": units},
                **{f"{name}_dropout": factor * rate for name, rate in _LSTM_DROPOUT.items()},
                **{"activation_penalty": 2.0, "temporal_penalty": 1.0},
            },
            batch_size,
        )
    num_layers, hidden_dim, num_heads, intermediate_dim, *further = plan.sizes[size]
    return plan.build(
        preprocessor,
        {
            "num_layers": num_layers,
            "num_heads": num_heads,
            "hidden_dim": hidden_dim,
            "intermediate_dim": intermediate_dim,
            "max_sequence_length": max(512, preprocessor.sequence_length),
        },
        *further,
    )


def generate(model, prompts, max_new_tokens, sampler, seed):
    """Prints each prompt, followed by the text that a causal language model generates for it."""
    if run_folder.is_unfinished(model) and not (pathlib.Path(model) / "config.json").exists():
        raise FileNotFoundError(
            f"The run is not finished. `keras-transfer pretrain` with the same settings continues it. Received: {model}"
        )
    task = tasks.CausalLM.from_pretrained(model)
    found = task.generate(prompts, max_new_tokens=max_new_tokens, sampler=sampler, seed=seed)
    print("\n\n".join(prompt + continuation for prompt, continuation in zip(prompts, found)))
