"""The weights of attention: where a Transformer looks."""
