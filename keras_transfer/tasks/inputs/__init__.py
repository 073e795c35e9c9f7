"""What users pass to a task: its readers and labels, and the checks of the data."""

from keras_transfer.tasks.inputs.class_labels import ClassNames, MultiHot, most_likely
from keras_transfer.tasks.inputs.class_names import (
    are_empty,
    check_not_positions,
    has_names,
    in_order_of_names,
    multi_hot,
    names_in,
    positions_of,
    positions_of_numbers,
)
from keras_transfer.tasks.inputs.data import (
    NoRows,
    batch_arrays,
    check_stream_shares,
    columns_of,
    count_rows,
    flat_labels,
    is_stream,
    lacks_labels,
    prepare_metrics,
    split_last,
    texts_of_stream,
    to_array,
    to_numpy,
    with_flat_labels,
)
from keras_transfer.tasks.inputs.data_checks import (
    check_class_labels,
    check_columns,
    check_inputs,
    check_multi_hot,
    checked_batches,
    validation_parts,
)
from keras_transfer.tasks.inputs.keras_losses import takes_vectors, trains_classes_apart
from keras_transfer.tasks.inputs.labels import Labels
from keras_transfer.tasks.inputs.named_labels import NamedLabels
from keras_transfer.tasks.inputs.numbers import Numbers
from keras_transfer.tasks.inputs.reader import ALL_ROWS, Reader, TextReader, encode_texts, for_backend
from keras_transfer.tasks.inputs.text_kinds import check_export, check_kind, kind_of

__all__ = [
    "ALL_ROWS",
    "ClassNames",
    "Labels",
    "MultiHot",
    "NamedLabels",
    "NoRows",
    "Numbers",
    "Reader",
    "TextReader",
    "are_empty",
    "batch_arrays",
    "check_class_labels",
    "check_columns",
    "check_export",
    "check_inputs",
    "check_kind",
    "check_multi_hot",
    "check_not_positions",
    "check_stream_shares",
    "checked_batches",
    "columns_of",
    "count_rows",
    "encode_texts",
    "flat_labels",
    "for_backend",
    "has_names",
    "in_order_of_names",
    "is_stream",
    "kind_of",
    "lacks_labels",
    "most_likely",
    "multi_hot",
    "names_in",
    "positions_of",
    "positions_of_numbers",
    "prepare_metrics",
    "split_last",
    "takes_vectors",
    "texts_of_stream",
    "to_array",
    "to_numpy",
    "trains_classes_apart",
    "validation_parts",
    "with_flat_labels",
]
