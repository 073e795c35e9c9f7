"""Training steps on torch, for the counterparts of what Keras trains."""


def adamw_step(model, rate, schedule, *, decay=0.01, clip=1.0, eps=1e-7, **options):
    """Returns a function that does a step given a loss: AdamW without decay of biases and norms, and clipped gradients.

    Args:
        model: torch module, whose weights are trained if they require gradients.
        rate: Float. Highest learning rate.
        schedule: Function from the optimizer to the schedule of the learning rate.
        decay: Float. Weight decay. Defaults to `0.01`.
        clip: Float. Maximum global norm of the gradients. Defaults to `1.0`.
        eps: Float. Epsilon of AdamW. Defaults to `1e-7`, that of Keras.
        **options: Further arguments of `torch.optim.AdamW`.
    """
    import torch

    weights = [weight for weight in model.parameters() if weight.requires_grad]
    decayed = {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": decay}
    others = {"params": [weight for weight in weights if weight.ndim == 1], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([decayed, others], lr=rate, eps=eps, **options)
    rates = schedule(optimizer)

    def step(loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, clip)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()

    return step
