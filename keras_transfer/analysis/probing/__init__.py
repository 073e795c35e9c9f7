"""Probes: small models that show what the vectors of a frozen encoder hold. `analysis` lists what users need."""
