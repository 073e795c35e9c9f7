"""The adapters that a task was last given, which its encoder may share with other tasks."""

import contextlib


class GivenAdapters:
    """A mixin that compares the adapters of the encoder with those that the task was last given.

    Tasks over one encoder share its adapters, but each has its own head. After another task has changed the adapters,
    the head of this task and what Keras has traced do not belong to them.

    Attributes:
        adapter_heads: Dict from inactive choices of adapters (`"first+second"`) to the values of their head.
        given_adapters: Tuple of the names of the adapters that the head belongs to, in order.
        known_adapters: Dict from the names of all adapters of the encoder to their kinds, when the task was last given
            some. Adapters that replace others under the same name have another list of kinds.
        compile_again: Boolean. Whether the adapters have changed since `compile`.
    """

    compile_again = False

    def remember_adapters(self, given=None, known=None):
        """Sets `given_adapters` and `known_adapters`, by default to the adapters that the encoder has now."""
        given = getattr(self.encoder, "active_adapters", ()) if given is None else given
        known = getattr(self.encoder, "adapters", {}) if known is None else known
        # Keras must not track or copy these.
        object.__setattr__(self, "given_adapters", tuple(given))
        object.__setattr__(self, "known_adapters", dict(known))

    @contextlib.contextmanager
    def applying_adapters(self, names):
        """Applies other adapters in this context, without exchanging the head."""
        before, encoder = self.given_adapters, self.encoder
        encoder.activate_adapters(names)
        self.remember_adapters(names, self.known_adapters)
        try:
            yield
        finally:
            encoder.activate_adapters(before)
            self.remember_adapters(before, self.known_adapters)

    def replaced_adapters(self):
        """Returns the set of names of adapters that another task has removed, and perhaps added anew."""
        now = getattr(self.encoder, "adapters", {})
        return {name for name, kinds in self.known_adapters.items() if now.get(name) is not kinds}

    def forget_replaced_heads(self):
        """Forgets the heads of adapters that no longer exist."""
        replaced = self.replaced_adapters()
        for choice in [choice for choice in self.adapter_heads if replaced & set(choice.split("+"))]:
            self.adapter_heads.pop(choice, None)  # Another thread may have been faster.

    def check_adapters(self):
        """Raises a `ValueError` if the encoder does not apply the adapters that the task was last given."""
        active, given = tuple(getattr(self.encoder, "active_adapters", ())), self.given_adapters
        replaced = [name for name in given if name in self.replaced_adapters()]
        if active == given and not replaced:
            self.forget_replaced_heads()
            return
        names = list(getattr(self.encoder, "adapters", {}))
        back = "" if replaced else f"`set_active_adapter(model, {_argument(given)})` to use its adapters again, or "
        raise ValueError(
            "The adapters of the encoder were changed through another task or the encoder itself, so they do not "
            f"belong to the head of this task. Call {back}`set_active_adapter(model, {_argument(active)})` to use the "
            f"current ones. Received: model={self.name!r}, which was last given {list(given)}"
            + (f" (since removed: {replaced})" if replaced else "")
            + f", and an encoder with the active adapters {list(active)} of {names}"
        )


def _argument(names):
    """Returns names as the argument of `set_active_adapter`."""
    return repr(None if not names else names[0] if len(names) == 1 else list(names))
