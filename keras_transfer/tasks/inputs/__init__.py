"""What users pass to a task as inputs: readers, columns and streams, and their checks."""

from keras_transfer.tasks.inputs.batch_checks import check_no_pairs, check_no_windows, checked_batches
from keras_transfer.tasks.inputs.column_checks import check_columns, validation_parts
from keras_transfer.tasks.inputs.columns import (
    batch_arrays,
    check_rows,
    columns_of,
    count_rows,
    input_names,
    rows_of,
    split_last,
    take_rows,
)
from keras_transfer.tasks.inputs.input_checks import check_inputs
from keras_transfer.tasks.inputs.loader_position import check_apart
from keras_transfer.tasks.inputs.loaders import is_loader, stream_of_loader
from keras_transfer.tasks.inputs.no_rows import NoRows
from keras_transfer.tasks.inputs.reader import ALL_ROWS, Reader, TextReader, encode_texts, for_backend
from keras_transfer.tasks.inputs.streams import (
    begins_at,
    check_stream_shares,
    draws_like,
    epochs_of_stream,
    epochs_trained,
    fix_targets,
    input_names_of,
    is_stream,
    lacks_labels,
    lacks_targets,
    log_length,
    of_all_places,
    position_of_stream,
    stream_without_float64,
    texts_of_stream,
    with_targets,
    with_weights_of_all_places,
    with_weights_of_places,
)
from keras_transfer.tasks.inputs.text_kinds import check_export, check_kind, kind_of

__all__ = [
    "ALL_ROWS",
    "NoRows",
    "Reader",
    "TextReader",
    "batch_arrays",
    "begins_at",
    "check_apart",
    "check_columns",
    "check_export",
    "check_inputs",
    "check_kind",
    "check_no_pairs",
    "check_no_windows",
    "check_rows",
    "check_stream_shares",
    "checked_batches",
    "columns_of",
    "count_rows",
    "draws_like",
    "encode_texts",
    "epochs_of_stream",
    "epochs_trained",
    "fix_targets",
    "for_backend",
    "input_names",
    "input_names_of",
    "is_loader",
    "is_stream",
    "kind_of",
    "lacks_labels",
    "lacks_targets",
    "log_length",
    "of_all_places",
    "position_of_stream",
    "rows_of",
    "split_last",
    "stream_of_loader",
    "stream_without_float64",
    "take_rows",
    "texts_of_stream",
    "validation_parts",
    "with_targets",
    "with_weights_of_all_places",
    "with_weights_of_places",
]
