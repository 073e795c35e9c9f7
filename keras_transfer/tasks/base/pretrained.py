"""Tasks from checkpoints, with the checkpoint's own head or a new one."""

from keras_transfer.checkpoints.sources import load_preprocessor, load_with_head
from keras_transfer.names import argument_names, check_arguments
from keras_transfer.tasks.inputs import names_in

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
    if isinstance(preprocessor, str) and preprocessor == "auto":
        preprocessor = load_preprocessor(source, sequence_length, wanted.word_level)
    elif sequence_length is not None:
        raise ValueError(
            "`sequence_length` applies to the preprocessor of the checkpoint. Pass it to your own preprocessor "
            f"instead. Received: sequence_length={sequence_length}, preprocessor={preprocessor!r:.100}"
        )
    built, arguments, load_head = load_with_head(source, cls, head, encoder or {}, arguments)
    task = cls(built, preprocessor=preprocessor, **arguments)
    load_head(task)
    return task
