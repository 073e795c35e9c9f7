"""Loading tasks from checkpoints, with the checkpoint's head or a new one, and writing them as checkpoints."""

import inspect
import pathlib
import tempfile
from typing import Any, Self

from keras_transfer.checkpoints import ModelCard, full_repo_id, open_checkpoint, push_to_hub, save
from keras_transfer.core.expect import expects, integer, one_of
from keras_transfer.core.files import atomic_folder
from keras_transfer.core.names import argument_names, check_arguments
from keras_transfer.data import names_in
from keras_transfer.distribute import is_chief, together, write_together
from keras_transfer.tasks.card_facts import facts_of

_OWN_ARGUMENTS = ("sequence_length", "encoder", "head", "preprocessor", "labels")  # Arguments of `from_pretrained`.


_Task: Any = object  # To type checkers, the mixin has all attributes of the task that it is a part of.


class Pretrained(_Task):
    """A mixin for `Task` that loads and writes checkpoints."""

    @classmethod
    @expects(sequence_length=integer(1), head=one_of(None, "new"))
    def from_pretrained(
        cls,
        source: Any,
        *,
        sequence_length: int | None = None,
        encoder: dict[str, Any] | None = None,
        head: str | None = None,
        preprocessor: Any = "auto",
        labels: Any = None,
        **arguments: Any,
    ) -> Self:
        """Builds the task on a pretrained encoder, with the encoder's preprocessor and the checkpoint's head.

        If the checkpoint has a head for this task, such as one that Transformers has fine-tuned, it is loaded with its
        label names. Arguments that contradict it raise an error. If the checkpoint has none, arguments that determine
        the size of a head (`num_classes`, `label_names`, `labels` or `num_targets`) create a new one. A `TextRegressor`
        has one target by default. A task without such arguments requires `head="new"`.

        Args:
            source: String or path. A checkpoint folder, the name of a downloaded Hugging Face model, a KerasHub preset,
                or `"minilm-l6"`. `Encoder.from_pretrained` describes all forms.
            sequence_length: Integer. Number of tokens to which texts are truncated. Defaults to `None`, the value of
                the checkpoint, but at most the encoder's number of positions.
            encoder: Dict of encoder arguments that differ from the checkpoint's, such as `{"dropout": 0.0}`. Defaults
                to `None`, for no differences.
            head: String. `"new"` for a new head, even if the checkpoint has one. Defaults to `None`.
            preprocessor: Callable from texts to the encoder's inputs, or `None` for prepared ids. Defaults to `"auto"`,
                the preprocessor of the checkpoint.
            labels: List, array or table column of labels. A new head gets all names that occur in it, in sorted order.
                A head from a checkpoint must have all these names. Only for tasks with `label_names`. Defaults to
                `None`.
            **arguments: Arguments of the task's constructor.

        Returns:
            The task, not compiled.

        Raises:
            TypeError: If the task has no argument of a name in `arguments`.
            ValueError: If both `preprocessor` and `sequence_length` are given, if `sequence_length` is more than the
                encoder's number of positions, or if both `labels` and another argument are given
                for the size of the head.
            CheckpointError: If the checkpoint cannot be read, does not match, has no preprocessor for the task, has no
                head while `arguments` do not ask for a new one, or has a head that `arguments` or a preprocessor
                contradict.
        """
        own = [name for name in inspect.signature(cls.from_pretrained).parameters if name != "arguments"]
        names = dict.fromkeys([*_OWN_ARGUMENTS, *own[1:], *argument_names(cls)])
        wanted = cls.checkpoint_head
        if "label_names" not in wanted.sizes:
            names.pop("labels")
        check_arguments(f"{cls.__name__}.from_pretrained", arguments, [*names, "encoder={}"])
        if labels is not None:
            given = [name for name in wanted.sizes if arguments.get(name) is not None]
            if "label_names" not in wanted.sizes or given:
                raise ValueError(
                    f"`labels` cannot be used with {' and '.join(given) or f'a {cls.__name__}'}. Leave it out. "
                    f"Received: labels={labels!r:.100}"
                )
            arguments["labels"] = names_in(labels)
        automatic = isinstance(preprocessor, str) and preprocessor == "auto"
        if not automatic and sequence_length is not None:
            raise ValueError(
                "`sequence_length` applies to the preprocessor of the checkpoint. Pass it to your own preprocessor "
                f"instead. Received: sequence_length={sequence_length}, preprocessor={preprocessor!r:.100}"
            )
        checkpoint = open_checkpoint(source)
        own_preprocessor = None if automatic else preprocessor
        if automatic:
            preprocessor = checkpoint.preprocessor(sequence_length, wanted.word_level)
        found = checkpoint.head_for(cls, arguments, encoder, head == "new", own_preprocessor)
        positions = getattr(found.encoder, "max_sequence_length", None)
        if automatic and positions is not None and (getattr(preprocessor, "sequence_length", None) or 0) > positions:
            if sequence_length is not None:
                raise ValueError(
                    f"`sequence_length` must be at most {positions}, the encoder's number of positions. Pass "
                    f"`sequence_length={positions}` to `from_pretrained`. Received: sequence_length={sequence_length}"
                )
            preprocessor = checkpoint.preprocessor(positions, wanted.word_level)
        task = cls(found.encoder, preprocessor=preprocessor, **found.arguments)
        found.load_into(task)
        return task

    def save_pretrained(self, folder: Any, *, overwrite: bool = False, card: ModelCard | None = None) -> None:
        """Writes the encoder, the preprocessor and the head as a checkpoint folder.

        Transformers loads the folder with the class for the task, such as `AutoModelForSequenceClassification`, and the
        label names. If no checkpoint format can contain the head, the folder is written without it.

        The folder also gets a model card, `README.md`. With `overwrite=True`, a `README.md` that you have written or
        edited is kept, with a warning.

        Args:
            folder: String or path. Folder to write. It is written completely or not at all.
            overwrite: Boolean. Whether to replace an existing folder. Defaults to `False`.
            card: `checkpoints.ModelCard`. What you know about the model, such as its language and scores. Defaults to
                `None`, a card with what the task itself knows.

        Raises:
            FileExistsError: If the folder exists and `overwrite=False`.
            CheckpointError: If no format supports the encoder or the preprocessor, or if Transformers has no equivalent
                of the head, for example because of its pooling.
            ValueError: If `card` is not a `ModelCard`.
        """
        name = pathlib.Path(folder).name
        self._write_checkpoint(folder, overwrite, card, name, name)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        card: ModelCard | None = None,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str | None = None,
        revision: str | None = None,
    ) -> str:
        """Uploads the checkpoint that `save_pretrained` writes, with its model card, to the Hugging Face hub.

        Requires `huggingface-hub`. To upload other folders, use `checkpoints.push_to_hub`.

        Args:
            repo_id: String. Name of the repository, `"name"` or `"organization/name"`. It is created if it does not
                exist.
            card: `checkpoints.ModelCard`. What you know about the model. Defaults to `None`, a card with what the task
                itself knows.
            private: Boolean. Whether a new repository is private. Defaults to `None`, the default of the organization.
            token: String. Access token with the permission to write. Defaults to `None`, the token of `hf auth login`
                or of the environment variable `HF_TOKEN`.
            commit_message: String. Message of the commit. Defaults to `None`, a message with the library version.
            revision: String. Name of a branch, which is created if it does not exist. Defaults to `None`, the main
                branch.

        Returns:
            String. The URL of the commit. Of several processes, the first one uploads, and the others return `""`.

        Raises:
            ImportError: If `huggingface-hub` is not installed.
            CheckpointError: If `save_pretrained` cannot write the task.
            ValueError: If `repo_id` is not the name of a repository, or `card` is not a `ModelCard`.
            RuntimeError: If the hub refuses the upload or cannot be reached.

        Example:
        ```py
        card = keras_transfer.checkpoints.ModelCard(language="en", metrics=report, evaluated_on="500 held-out reviews")
        model.push_to_hub("your-name/reviews", card=card, private=True)
        ```
        """
        repo_id = full_repo_id(repo_id, token)
        source = f"hf://{repo_id}" + (f"@{revision}" if revision else "")
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "model"
            self._write_checkpoint(folder, False, card, repo_id.rpartition("/")[2], source)
            options = {"commit_message": commit_message, "revision": revision}

            def upload():
                return push_to_hub(folder, repo_id, private=private, token=token, **options) if is_chief(self) else ""

            return together(upload, self)

    def _write_checkpoint(self, folder, overwrite, card, name, source):
        """Writes a checkpoint with its card, whose title is `name` and whose snippets load `source`."""
        if card is not None and not isinstance(card, ModelCard):
            raise ValueError(f"`card` must be a `checkpoints.ModelCard`, or None. Received: card={card!r:.200}")
        self.reader.require_whole("saved")
        preprocessor = getattr(self.preprocessor, "preprocessor", self.preprocessor)  # The windows are removed.

        def write(path):
            with atomic_folder(path, overwrite) as temporary:
                save(self.encoder, temporary, preprocessor, True, self)
                (card or ModelCard()).write(facts_of(self, temporary, source), temporary, name, replaced=path)

        write_together(write, folder, self)
