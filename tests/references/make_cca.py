"""Makes cca.npz: the canonical correlations and directions that the code of SVCCA's and PWCCA's authors finds.

Needs a checkout of https://github.com/google/svcca: `python tests/references/make_cca.py FOLDER`.
"""

import pathlib
import sys

import numpy as np


def main(folder):
    sys.path.insert(0, folder)
    import cca_core
    import pwcca

    random = np.random.default_rng(0)
    a = random.normal(size=(60, 6)) @ random.normal(size=(6, 6)) + random.normal(size=6)
    b = np.hstack([a[:, :3] + random.normal(size=(60, 3)), random.normal(size=(60, 5))])
    found = cca_core.get_cca_similarity(a.T, b.T, compute_dirns=True, verbose=False)
    directions = found["cca_dirns1"] - found["neuron_means1"]

    # As in their tutorial: SVD of the centered neurons, whose first axes are kept.
    reduced = []
    for values, kept in ((a, 4), (b, 5)):
        _, sizes, axes = np.linalg.svd((values - values.mean(axis=0)).T, full_matrices=False)
        reduced.append(sizes[:kept, None] * axes[:kept])
    few = cca_core.get_cca_similarity(*reduced, verbose=False)["cca_coef1"]

    # Their directions are those of the paper if the neurons are uncorrelated and centered.
    centered = a - a.mean(axis=0)
    white = np.linalg.qr(centered)[0]
    weighted, _, _ = pwcca.compute_pwcca(white.T, b.T)
    path = pathlib.Path(__file__).with_name("cca.npz")
    np.savez_compressed(
        path, a=a, b=b, correlations=found["cca_coef1"], directions=directions, few=few, white=white, weighted=weighted
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
