"""Writes fisher.npz: what `test_fisher.py` compares every backend with, as TensorFlow computes it.

python -m tests.references.make_fisher
"""

import pathlib

import numpy as np

from tests.adaptation.test_fisher import figures

if __name__ == "__main__":
    np.savez(pathlib.Path(__file__).with_name("fisher.npz"), **figures())
