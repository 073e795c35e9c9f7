# %% [markdown]
# # Answer questions from a text: SQuAD
#
# Extractive question answering finds the part of a text that answers a question. SQuAD (Rajpurkar et al. 2016) has
# questions on paragraphs of Wikipedia, with the place of each answer.
#
# **You will learn** to prepare such data, to fine-tune a span extractor, to measure exact match and F1 as the official
# script does, and to read answers with their scores.
#
# **You need** `dev-v1.1.json` of [SQuAD](https://rajpurkar.github.io/SQuAD-explorer) in a folder `squad1.1`, and about
# five minutes on a CPU. We train on a small part of the dev data, and test on other articles of it, so the figures
# cannot be compared with figures of models that train on the 87,599 training questions.

# %%
import os
import pathlib

import keras

import keras_transfer as kt

keras.utils.set_random_seed(0)
FOLDER = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA", ".")) / "squad1.1"
TRAIN, TEST = 800, 150  # questions
data = kt.datasets.load_squad(FOLDER / "dev-v1.1.json")
titles = sorted(set(data.titles))
print(len(data.questions), "questions on", len(titles), "articles")
print(data.questions[0], data.answers[0][0])

# %% [markdown]
# ## Split by article
#
# Questions on one paragraph share their text. If a random half of them were for testing, the model would know the text.
# So whole articles are held out:

# %%
held_out = set(titles[::5])
rows = {True: [], False: []}
for row, title in enumerate(data.titles):
    rows[title in held_out].append(row)


def evenly(rows, count):
    return rows[:: max(len(rows) // count, 1)][:count]


def columns(rows):
    return [data.questions[row] for row in rows], [data.contexts[row] for row in rows]


train, test = evenly(rows[False], TRAIN), evenly(rows[True], TEST)
answers = [data.answers[row] for row in train]
print(len(train), "questions for training,", len(test), "for testing")

# %% [markdown]
# ## The model
#
# A dense layer scores each token as the beginning and as the end of the answer. A context that is too long for a row is
# split into overlapping windows. Short rows save time: with 192 tokens, most paragraphs fit into one or two.

# %%
model = kt.tasks.SpanExtractor.from_pretrained("minilm-l6", head="new", sequence_length=192)
recipe = kt.adaptation.get_recipe("bert", learning_rate=2e-4, epochs=2, batch_size=16)
kt.adaptation.fine_tune(model, columns(train), answers, recipe=recipe)

# %% [markdown]
# ## Measure it
#
# Exact match is the fraction of answers that equal one of the annotators' answers. F1 counts the words that they share.

# %%
found = model.answer(*columns(test))
scores = kt.metrics.squad_scores([data.answers[row] for row in test], [answer["text"] for answer in found])
print(f"exact match {scores['exact_match']:.1f}%, F1 {scores['f1']:.1f}% of {scores['total']} questions")

# %%
for row, answer in list(zip(test, found))[:5]:
    print(
        f"{data.questions[row]}\n    {answer['text']!r} ({answer['score']:.2f}), right: {data.answers[row][0].text!r}"
    )

# %% [markdown]
# ## Ask your own question

# %%
text = "Ada Lovelace translated an article by Luigi Menabrea in 1843, and added notes that were three times as long."
for candidate in model.answer("When was the article translated?", text, k=3):
    print(f"{candidate['score']:.2f}  {candidate['text']!r}")

# %% [markdown]
# ## What it means
#
# | training questions | epochs | exact match | F1 |
# | --- | ---: | ---: | ---: |
# | 800, this page | 2 | 31.3 | 45.1 |
# | 38 articles of the dev data, three seeds ([quality](../benchmarks/quality.md)) | 1 | 46.84 ± 0.46 | 60.97 ± 0.20 |
#
# Extractive question answering needs thousands of questions, because a span must be exactly right at both ends. Where
# you have few, start from a checkpoint that has been fine-tuned on SQuAD: `SpanExtractor.from_pretrained(folder)` loads
# its head too.
#
# ## Exercises
#
# 1. Train with 200 and with 3,200 questions. How does F1 grow?
# 2. Set `model.no_answer_threshold = 0.0` and ask about something that the text does not say.
# 3. Export the model, and send it a question as JSON ([serving](serve_a_model.md)).
#
# ## Next
#
# [Search by meaning](search_by_meaning.md) finds the paragraph in which the answer is.
