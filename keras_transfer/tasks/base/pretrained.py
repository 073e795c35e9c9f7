"""Tasks from checkpoints, with the checkpoint's own head or a new one."""

from keras_transfer.checkpoints.sources import check_length, open_checkpoint
from keras_transfer.label_names import names_in
from keras_transfer.names import argument_names, check_arguments

_OWN_ARGUMENTS = ("sequence_length", "encoder", "head", "preprocessor", "labels")  # of `from_pretrained`


def load_task(cls, source, sequence_length, encoder, head, preprocessor, labels, arguments):
    """Returns a task of a class from a checkpoint; see `Task.from_pretrained`."""
    check_arguments(f"{cls.__name__}.from_pretrained", arguments, [*_OWN_ARGUMENTS, *argument_names(cls)])
    wanted = cls.checkpoint_head
    if labels is not None:
        given = [name for name in wanted.sizes if arguments.get(name) is not None]
        if "label_names" not in wanted.sizes or given:
            raise ValueError(
                f"`labels` cannot be used with {' and '.join(given) or f'a {cls.__name__}'}. "
                f"Received: labels={labels!r:.100}"
            )
        arguments["labels"] = names_in(labels)
    check_length(sequence_length)
    automatic = isinstance(preprocessor, str) and preprocessor == "auto"
    if not automatic and sequence_length is not None:
        raise ValueError(
            "`sequence_length` applies to the preprocessor of the checkpoint. Pass it to your own preprocessor "
            f"instead. Received: sequence_length={sequence_length}, preprocessor={preprocessor!r:.100}"
        )
    checkpoint = open_checkpoint(source)
    if automatic:
        preprocessor = checkpoint.preprocessor(sequence_length, wanted.word_level)
    built, arguments, load_head = checkpoint.with_head(cls, head, encoder or {}, arguments)
    task = cls(built, preprocessor=preprocessor, **arguments)
    load_head(task)
    return task
