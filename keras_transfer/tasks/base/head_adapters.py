"""The adapters that a task's head belongs to. Other tasks may share them with its encoder."""

import contextlib


class HeadAdapters:
    """Compares the encoder's adapters with the adapters that the task last knew. A task has it as `head_adapters`.

    Tasks on one encoder share its adapters, but each has its own head. After another task has changed the adapters, the
    head of this task and the functions that Keras has traced no longer match them.

    Attributes:
        heads: Dict from inactive choices of adapters (`"first+second"`) to the weights of their head.
        given: Tuple of the names of the adapters that the head belongs to, in order.
        known: Dict from the names of all adapters of the encoder to their kinds, at the time when the task last changed
            its adapters. Adapters that replace others under the same name have a different list of kinds.
        compile_again: Boolean. Whether the adapters have changed since `compile`.
        trained: Set of the `id`s of the weights that trained after the last change of the adapters, or `None`.
    """

    def __init__(self, task):
        self._task, self.heads, self.compile_again, self.trained = task, {}, False, None
        self.remember()

    def remember(self, given=None, known=None):
        """Sets `given` and `known`, by default to the current adapters of the encoder."""
        encoder = self._task.encoder
        self.given = tuple(getattr(encoder, "active_adapters", ()) if given is None else given)
        self.known = dict(getattr(encoder, "adapters", {}) if known is None else known)

    @contextlib.contextmanager
    def applying(self, names):
        """Applies other adapters in this context, without exchanging the head."""
        before, encoder = self.given, self._task.encoder
        encoder.activate_adapters(names)
        self.remember(names, self.known)
        try:
            yield
        finally:
            encoder.activate_adapters(before)
            self.remember(before, self.known)

    def replaced(self):
        """Returns the set of names of adapters that another task has removed (and possibly added again)."""
        now = getattr(self._task.encoder, "adapters", {})
        return {name for name, kinds in self.known.items() if now.get(name) is not kinds}

    def forget_replaced(self):
        """Forgets the heads of adapters that no longer exist."""
        replaced = self.replaced()
        for choice in [choice for choice in self.heads if replaced & set(choice.split("+"))]:
            self.heads.pop(choice, None)  # Another thread may already have removed it.

    def check(self):
        """Raises a `ValueError` if the encoder's active adapters are not the ones that the head belongs to."""
        encoder = self._task.encoder
        active = tuple(getattr(encoder, "active_adapters", ()))
        replaced = [name for name in self.given if name in self.replaced()]
        if active == self.given and not replaced:
            self.forget_replaced()
            return
        own = f"`set_active_adapter(model, {_argument(self.given)})` to use its adapters again, or "
        removed = f" (since removed: {replaced})" if replaced else ""
        raise ValueError(
            "The adapters of the encoder were changed through another task or the encoder itself, so they do not "
            f"belong to the head of this task. Call {'' if replaced else own}"
            f"`set_active_adapter(model, {_argument(active)})` to use the current ones. Received: "
            f"model={self._task.name!r}, which was last given {list(self.given)}{removed}, and an encoder with the "
            f"active adapters {list(active)} of {list(getattr(encoder, 'adapters', {}))}"
        )


def _argument(names):
    """Returns adapter names in the form that `set_active_adapter` expects."""
    return repr(None if not names else names[0] if len(names) == 1 else list(names))
