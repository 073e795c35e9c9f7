"""Makes permutations.json: which tokens the original code of XLNet predicts and who sees them, and what it drew.

    python tests/references/make_permutations.py FOLDER

Needs tensorflow. FOLDER contains data_utils.py of zihangdai/xlnet, bbaa3a6, as `xlnet.py`. Its functions run as they
are. Only the modules that they import are replaced: by stand-ins that draw with NumPy and write down what they drew.
"""

import json
import pathlib
import sys
import types

import numpy as np
from make_objectives import StandIn, run_functions

HERE = pathlib.Path(__file__).parent
SEP, CLS = 4, 3


def make_spans(path, draws):
    """Returns rows of which the original chooses tokens, each with what it drew and chose."""
    drawn, cases = {}, []

    def choice(options, p=None):
        if p is None:
            value = int(draws.integers(options))
            drawn["before"].append((value + 0.5) / options)
        else:
            value = int(draws.choice(options, p=p))
            drawn["lengths"].append(value)
        return value

    def randint(size):
        value = int(draws.integers(size))
        drawn["singles"].append(value)
        return value

    numpy = StandIn(np, bool=bool, random=types.SimpleNamespace(choice=choice, randint=randint))
    flags = types.SimpleNamespace(mask_alpha=6, mask_beta=1)
    names = {"np": numpy, "FLAGS": flags}
    sample = run_functions(path, ["_is_start_piece", "_sample_mask"], names)._sample_mask
    for alpha in (6, 3):
        flags.mask_alpha = alpha
        for length in (4, 9, 20, 21, 40, 64, 100, 128):
            starts = draws.random(length) < 0.7
            pieces = types.SimpleNamespace(IdToPiece=np.where(starts, "▁a", "a").__getitem__)
            drawn |= {"before": [], "lengths": [], "singles": []}
            count = round(length / alpha)
            mask = sample(pieces, np.arange(length), goal_num_predict=count)
            case = {"alpha": alpha, "count": count, "starts": starts.tolist(), "chosen": np.flatnonzero(mask).tolist()}
            cases.append({**case, **drawn})
    return cases


def make_orders(path, draws):
    """Returns rows in two parts with their targets, what the original drew, and which tokens see which others."""
    import tensorflow as tf

    drawn, cases = [], []

    def shuffle(index):
        order = draws.permutation(len(index))
        drawn.append(order.tolist())
        return tf.gather(index, order)

    names = {"tf": StandIn(tf, random_shuffle=shuffle), "SEP_ID": SEP, "CLS_ID": CLS}
    local = run_functions(path, ["_local_perm"], names)._local_perm
    for reuse, rest, size in ((0, 9, 9), (5, 7, 7), (8, 8, 8), (6, 1, 6), (0, 12, 4), (6, 9, 3)):
        ids = draws.integers(5, 50, reuse + rest)
        ids[-1], ids[-2:-1], ids[reuse + rest // 2] = CLS, SEP, SEP
        chosen, parts = draws.random(reuse + rest) < 0.5, []
        drawn.clear()
        for part in (slice(0, reuse), slice(reuse, None)):
            values = tf.constant(ids[part], tf.int64)
            length = len(ids[part])
            if length:
                parts.append(local(values, values, tf.constant(chosen[part]), min(size, length), length))
        hidden = [part[0].numpy() for part in parts]
        if reuse:  # as in the original's `parser`
            above = np.concatenate([hidden[0], np.ones((reuse, rest))], axis=1)
            below = np.concatenate([np.zeros((rest, reuse)), hidden[1]], axis=1)
            hidden = [np.concatenate([above, below])]
        targets = np.concatenate([part[2].numpy() for part in parts])
        cases.append(
            {
                "reuse": reuse,
                "size": size,
                "special": np.flatnonzero((ids == SEP) | (ids == CLS)).tolist(),
                "targets": np.flatnonzero(targets).tolist(),
                "ranks": list(drawn),
                "perm_mask": ["".join(map(str, row)) for row in hidden[0].astype(int)],
            }
        )
    return cases


if __name__ == "__main__":
    file, random = pathlib.Path(sys.argv[1]) / "xlnet.py", np.random.default_rng(0)
    found = {"spans": make_spans(file, random), "orders": make_orders(file, random)}
    (HERE / "permutations.json").write_text(json.dumps(found, separators=(",", ":")) + "\n", "utf-8")
