"""Attributes of a task that are those of its reader or its labels, so that setting them changes what the task does."""


def of_part(part, name, doc=None):
    """Returns a property of a task for an attribute of one of its parts.

    Args:
        part: String, `"reader"` or `"labels"`.
        name: String. Name of the attribute.
        doc: String. Docstring of the property. Defaults to `None`.
    """

    def get(task):
        return getattr(getattr(task, part), name)

    def put(task, value):
        setattr(getattr(task, part), name, value)

    return property(get, put, doc=doc)
