"""What a model says about itself in its card, without the user's help."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What a task tells its model card.

    Args:
        task: String. Name of the class of the task.
        summary: String. A sentence that says what the model does.
        pipeline_tag: String. The hub's name of the task, or None.
        labels: List of strings. Names of the labels, in the order of the outputs. Defaults to `()`.
        base_model: String. Name of the pretrained encoder on the hub, or None if it is unknown. Defaults to `None`.
        details: Dict from names to values of what else is known of the model. Defaults to `{}`.
        training: Dict from names to values of what is known of its training. Defaults to `{}`.
        versions: Dict from names of packages to their versions. Defaults to `{}`.
        usage: Dict from titles to snippets of Python. Defaults to `{}`.
        limits: List of sentences. Defaults to `()`.
        tags: List of strings. Further tags. Defaults to `()`.
    """

    task: str
    summary: str
    pipeline_tag: str | None
    labels: tuple = ()
    base_model: str | None = None
    details: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=dict)
    versions: dict = dataclasses.field(default_factory=dict)
    usage: dict = dataclasses.field(default_factory=dict)
    limits: tuple = ()
    tags: tuple = ()
