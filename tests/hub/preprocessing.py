"""A small preprocessing module with the functions of BERT's: tokenize words, and pack segments."""

import tensorflow as tf

from tests.hub.saved_modules import WORDS

LENGTH, FIRST, SEPARATOR = 8, 1, 2


def save_preprocessing_module(folder):
    """Saves the module: strings [batch] to ids [batch, 8], `tokenize`, and `bert_pack_inputs` with `seq_length`."""
    module = tf.Module()
    folder.parent.mkdir(parents=True, exist_ok=True)
    vocabulary = folder.parent / "words.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[CLS]", "[SEP]", *WORDS]) + "\n")
    source = tf.lookup.TextFileInitializer(
        str(vocabulary),
        *(tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
    )
    module.table = tf.lookup.StaticHashTable(source, default_value=0)
    strings = tf.TensorSpec([None], tf.string)
    ragged = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)

    def tokenize(texts):
        words = tf.strings.split(texts)
        return tf.cast(words.with_values(module.table.lookup(words.values)), tf.int32)

    def padded(codes, length):
        codes = codes[:, :length].to_tensor(-1)
        codes = tf.pad(codes, [[0, 0], [0, length - tf.shape(codes)[1]]], constant_values=-1)
        return tf.ensure_shape(codes, [None, length if isinstance(length, int) else None])

    def pack(segments, seq_length=LENGTH):
        rows = segments[0].nrows()
        first, separator = (tf.RaggedTensor.from_tensor(tf.fill([rows, 1], mark)) for mark in (FIRST, SEPARATOR))
        parts = [[first, segments[0], separator], *([segment, separator] for segment in segments[1:])]
        # The id and the segment of each token as one number: tracing operations on ragged tensors takes long.
        codes = [part.with_values(2 * part.values + i) for i, group in enumerate(parts) for part in group]
        codes = padded(tf.concat(codes, 1), seq_length)
        mask = tf.cast(codes >= 0, tf.int32)
        return {"input_word_ids": mask * (codes // 2), "input_mask": mask, "input_type_ids": mask * (codes % 2)}

    module.tokenize = tf.function(tokenize, input_signature=[strings], autograph=False)
    module.bert_pack_inputs = tf.function(pack, autograph=False)
    for count in (1, 2):
        module.bert_pack_inputs.get_concrete_function([ragged] * count, seq_length=tf.TensorSpec([], tf.int32))
        module.bert_pack_inputs.get_concrete_function([ragged] * count)
    module.__call__ = tf.function(lambda texts: pack([tokenize(texts)]), input_signature=[strings], autograph=False)
    tf.saved_model.save(module, str(folder))
    vocabulary.unlink()  # the module contains a copy
    return folder
