"""The wrapper that applies adapters to a layer, and the layers of adapters that users can build on."""
