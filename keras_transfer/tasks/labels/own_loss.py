"""Labels of tasks that compute their losses and metrics themselves."""


class OwnLoss:
    """A mixin for `Labels` of a task whose `compute_loss` does not use a loss of `compile`.

    Attributes:
        task_name: String. Class name of the task, for errors.
    """

    task_name: str | None = None

    def loss(self):
        return None

    def compiled(self, loss, metrics, weighted_metrics):
        """Returns `None` for all three, and raises a `ValueError` if one is given."""
        given = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
        for argument, value in given.items():
            if value is not None and not (isinstance(value, str) and value == "auto"):
                raise ValueError(
                    f"A `{self.task_name}` computes its own loss and metrics. Leave `loss`, `metrics`, "
                    f"`weighted_metrics` and `loss_weights` out. Received: {argument}={value!r}"
                )
        return None, None, None
