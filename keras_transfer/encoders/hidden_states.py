"""The hidden states of any encoder by the names of its layer groups."""

from keras_transfer.encoders.encoder import encode
from keras_transfer.encoders.keras_hub_backbone import backbone_groups, is_backbone


def named_hidden_states(encoder):
    """Returns the symbolic hidden states of an encoder by name: `"embeddings"`, then the block after which each is."""
    states = encode(encoder, hidden_states=True).hidden_states
    groups = backbone_groups(encoder) if is_backbone(encoder) else getattr(encoder, "layer_groups", list)()
    blocks = [name for name, kind, *_ in groups if kind == "block"]
    if len(blocks) == len(states):  # A TF Hub module returns no embeddings.
        return dict(zip(blocks, states))
    names = blocks if len(blocks) == len(states) - 1 else [f"layer_{i}" for i in range(len(states) - 1)]
    return dict(zip(["embeddings", *names], states))
