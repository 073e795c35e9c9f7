"""One run of `quality` in a process of its own: trains a model on one dataset, and prints its metrics and times."""

from benchmarks import one_run  # first, since it records when the process starts

# ruff: isort: split

import functools
import pathlib
import runpy

import numpy as np

from benchmarks.fine_tuning import real_texts
from benchmarks.fine_tuning.contenders import CONTENDERS as PLAIN
from benchmarks.fine_tuning.training import BATCH, fit, length_grouped, torch_outputs, train_rows, train_torch

SIZES = {"sst2": 10_000}  # Where only some of the training data are used.
OVERLAP = 128  # Tokens that a window of a context has in common with the next, which Transformers call `stride`.
LONGEST_ANSWER = 30  # in tokens

# === Embeddings: trained with the cosines of pairs, which they predict ===


def keras_embeddings(data, folder, epochs, seed, clock, same_order=False):
    """Trains with the order of our own batches, or with the same as `torch_embeddings`."""
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
    model = kt.tasks.TextEmbedder.from_pretrained(folder, sequence_length=data.length)

    def make_batches():
        return kt.text.part_batches(*data.train, preprocessor=model.preprocessor, batch_size=BATCH, seed=seed)

    def make_epochs(train):
        return length_grouped(characters(data.train[0]), seed)

    loss = kt.losses.CosineSimilarityLoss()
    fit(model, make_batches, data, epochs, clock, loss, make_epochs if same_order else None)
    return lambda texts: cosines(*(model.embed(column, batch_size=BATCH, verbose=0) for column in texts))


def torch_embeddings(data, folder, epochs, seed, clock):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    torch.manual_seed(seed)
    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = data.length
    loss = CosineSimilarityLoss(model)
    texts, labels = data.train

    def loss_of(batch):
        inputs = [model.preprocess([column[row] for row in batch]) for column in texts]
        return loss(inputs, torch.tensor([labels[row] for row in batch]))

    def prepare():
        return loss_of, characters(texts)

    train_torch(model, prepare, data, epochs, seed, clock)
    model.eval()
    return lambda texts: cosines(*(model.encode(column, batch_size=BATCH) for column in texts))


def characters(texts):
    """Returns the length of the longer text of each pair in characters, by which `encode` sorts."""
    return [max(map(len, pair)) for pair in zip(*texts)]


def cosines(first, second):
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / lengths


# === Questions: predictions are the texts of the answers ===


def keras_answers(data, folder, epochs, seed, clock, same_order=False):
    """Trains with the order of our own batches, or with the same as `torch_answers`."""
    import keras

    import keras_transfer as kt

    keras.utils.set_random_seed(seed)
    options = {"overlap": OVERLAP, "max_answer_length": LONGEST_ANSWER, "sequence_length": data.length}
    model = kt.tasks.SpanExtractor.from_pretrained(folder, head="new", **options)

    def make_batches():
        return kt.text.span_batches(
            *data.train, preprocessor=model.preprocessor, batch_size=BATCH, seed=seed, overlap=OVERLAP
        )

    def make_epochs(train):
        return length_grouped(train.real.tolist(), seed)

    fit(model, make_batches, data, epochs, clock, make_epochs=make_epochs if same_order else None)
    return lambda texts: [answer["text"] for answer in model.answer(*texts, batch_size=BATCH)]


def torch_answers(data, folder, epochs, seed, clock):
    """Trains like the scripts of Transformers: answers that a window does not fully contain are at its first token."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer, DataCollatorWithPadding

    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder)

    def encode(questions, contexts):
        """Returns each window's inputs, its example, and the characters of its tokens, None outside the context."""
        encoded = tokenizer(
            questions,
            contexts,
            truncation="only_second",
            max_length=data.length,
            stride=OVERLAP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        windows = range(len(encoded["input_ids"]))
        rows = [{name: encoded[name][window] for name in tokenizer.model_input_names} for window in windows]
        places = [
            [place if part == 1 else None for place, part in zip(encoded["offset_mapping"][window], parts)]
            for window, parts in zip(windows, map(encoded.sequence_ids, windows))
        ]
        return rows, encoded["overflow_to_sample_mapping"], places

    def targets(answer, places):
        text, start = answer
        inside = [at for at, place in enumerate(places) if place and place[1] > start and place[0] < start + len(text)]
        whole = inside and places[inside[0]][0] <= start and places[inside[-1]][1] >= start + len(text)
        first, last = (inside[0], inside[-1]) if whole else (0, 0)
        return {"start_positions": first, "end_positions": last}

    def predict(texts):
        rows, examples, places = encode(*texts)
        best = [(-np.inf, "")] * len(texts[0])
        for (starts, ends), example, spans in zip(torch_outputs(model, tokenizer, rows), examples, places):
            at = np.array([index for index, place in enumerate(spans) if place])
            near = np.tri(len(at), k=LONGEST_ANSWER - 1) * np.tri(len(at)).T
            scores = np.where(near, starts[at][:, None] + ends[at], -np.inf)
            first, last = np.unravel_index(scores.argmax(), scores.shape)
            answer = texts[1][example][spans[at[first]][0] : spans[at[last]][1]]
            best[example] = max(best[example], (scores[first, last], answer))
        return [answer for _, answer in best]

    def encode_training():
        texts, answers = data.train
        encoded = zip(*encode(*texts))
        return [{**row, **targets(answers[example][0], at)} for row, example, at in encoded]

    train_rows(model, DataCollatorWithPadding(tokenizer), encode_training, data, epochs, seed, clock)
    return predict


CONTENDERS = {
    ("sts_b_embeddings", "keras_transfer"): keras_embeddings,
    ("sts_b_embeddings", "keras_transfer_same_order"): functools.partial(keras_embeddings, same_order=True),
    ("sts_b_embeddings", "sentence_transformers"): torch_embeddings,
    ("squad", "keras_transfer"): keras_answers,
    ("squad", "keras_transfer_same_order"): functools.partial(keras_answers, same_order=True),
    ("squad", "transformers"): torch_answers,
}


def train(run, data, clock):
    """Trains a model, and returns a function from texts to predictions."""
    arguments = data, run["folder"], run["epochs"], run["seed"], clock
    if special := CONTENDERS.get((run["dataset"], run["contender"])):
        return special(*arguments)
    *_, predict = PLAIN[run["contender"]](*arguments)
    return predict


def scores(dataset, labels, predictions):
    """Returns the metrics of predictions by name, fractions of 1, for all contenders from the same functions."""
    if dataset == "squad":
        path = pathlib.Path(__file__).parents[2] / "keras_transfer" / "metrics" / "squad.py"
        answers = [[text for text, _ in each] for each in labels]
        found = runpy.run_path(str(path))["squad_scores"](answers, predictions)  # without importing the package
        return {name: found[name] / 100 for name in ("exact_match", "f1")}
    if dataset.startswith("sts_b"):
        from scipy import stats

        values = np.ravel(predictions)
        found = {"pearson": stats.pearsonr(values, labels), "spearman": stats.spearmanr(values, labels)}
        return {name: float(correlation.statistic) for name, correlation in found.items()}
    best = [logits.argmax(-1) for logits in predictions]
    if dataset == "cola":
        from sklearn.metrics import matthews_corrcoef

        return {"matthews": float(matthews_corrcoef(labels, best))}
    if dataset == "ewt":
        right = sum(one == other for found, tags in zip(best, labels) for one, other in zip(found, tags))
        return {"accuracy": float(right / sum(map(len, labels)))}  # Words without a prediction are wrong.
    return {"accuracy": float(np.mean(np.array(best) == labels))}


def main(run):
    """Does a run and returns its figures.

    Args:
        run: Dict of `dataset`, `contender`, `epochs`, `seed`, `threads`, `examples`, `data_dir` and `folder`, the
            checkpoint's.
    """
    one_run.limit_threads(run["threads"])
    data = real_texts.read(run["dataset"], run["data_dir"], run["examples"], SIZES)
    clock = one_run.Clock()
    predict = train(run, data, clock)
    texts, labels = data.test
    predictions = predict(texts)
    wall, cpu = clock.training
    figures = {"training_wall": wall, "training_cpu": cpu, **one_run.usage()}
    return {"metrics": scores(run["dataset"], labels, predictions), **figures}


if __name__ == "__main__":
    one_run.answer(main)
