"""The user's data on its way to a model: plans and batches by length, corpora, stored outputs, and names as labels."""

from keras_transfer.data.batching import UNUSED, Batches, Contents
from keras_transfer.data.corpus import Corpus
from keras_transfer.data.label_names import (
    are_empty,
    check_not_positions,
    checked_names,
    has_names,
    in_order_of_names,
    keys_as_positions,
    label_of_accuracy,
    multi_hot,
    names_in,
    positions_of,
    positions_of_numbers,
    renamed,
    whole_labels,
)
from keras_transfer.data.layout import Layout, fit_to, preprocess_texts, preprocess_words, real_lengths
from keras_transfer.data.loaders import Stream, check_apart, is_tf_dataset
from keras_transfer.data.mixture import SAMPLING, Mixture, WithLabeled, errors_of
from keras_transfer.data.planning import LENGTH_STEP, compiles_each_length
from keras_transfer.data.row_store import StoredRows, fingerprint_of, store_rows
from keras_transfer.data.sentence_streams import word_streams
from keras_transfer.data.source import GivenDataset, NoRows, Source, for_keras
from keras_transfer.data.span_batching import (
    check_span_preprocessor,
    context_windows,
    span_batches,
    span_columns,
    window_distance,
    windows_in_memory,
)
from keras_transfer.data.text_batching import (
    batches,
    choice_batches,
    choice_columns,
    column_batches,
    part_batches,
    to_parts,
    with_placeholders,
)
from keras_transfer.data.word_batching import word_batches
