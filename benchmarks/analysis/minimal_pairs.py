"""BLiMP's pairs under a BERT-like and a GPT-2-like model: seconds and sums, beside minicons and lm-eval.

Both models are 384 wide, with 6 blocks and random weights. The libraries take turns on the same files, each in its own
process, and only the scoring is timed, with the first trace. `--rivals` is the Python of an environment with torch,
Transformers, minicons and lm-eval.

    python -m benchmarks.analysis.minimal_pairs --data FOLDER --rivals PYTHON

`FOLDER` contains `blimp/` and `vocabs/` with `bert-base-uncased-vocab.txt` and GPT-2's `encoder.json` and `vocab.bpe`.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
RIVALS = {"masked": "minicons", "causal": "lm-eval"}


def prepare(data, folder, count):
    """Writes both models and the sentences of the first pairs of each of BLiMP's files into a folder."""
    import keras

    import keras_transfer as kt

    pairs = kt.datasets.load_blimp(data / "blimp")
    each = -(-count // len(pairs))
    texts = [text for one in pairs.values() for both in zip(one.good[:each], one.bad[:each]) for text in both]
    (folder / "texts.json").write_text(json.dumps(texts[: 2 * count]), "utf-8")
    sizes = {"num_layers": 6, "num_heads": 6, "hidden_dim": 384, "intermediate_dim": 1536, "max_sequence_length": 128}
    keras.utils.set_random_seed(0)
    words = kt.text.BertPreprocessor(data / "vocabs" / "bert-base-uncased-vocab.txt")
    encoder = kt.encoders.BertEncoder(words.vocabulary_size, **sizes, initializer_range=0.1)
    kt.tasks.MaskedLM(encoder, words).save_pretrained(folder / "masked")
    ids = json.loads((data / "vocabs" / "gpt2" / "encoder.json").read_text("utf-8"))
    merges = (data / "vocabs" / "gpt2" / "vocab.bpe").read_text("utf-8").splitlines()[1:]
    merges, end = [line.split() for line in merges if line], "<|endoftext|>"
    tokenizer = kt.text.ByteBPETokenizer(sorted(ids, key=ids.get), merges, eos_token=end)
    encoder = kt.encoders.GPT2Encoder(len(ids), **sizes, initializer_range=0.1)
    preprocessor = kt.text.TokenPreprocessor(tokenizer, kt.text.Packing(pad=end))
    kt.tasks.CausalLM(encoder, preprocessor).save_pretrained(folder / "causal")


def ours(folder, kind):
    """Returns the sums and the seconds of this library."""
    from keras_transfer.analysis import sentence_scores
    from keras_transfer.tasks import CausalLM, MaskedLM

    model = {"masked": MaskedLM, "causal": CausalLM}[kind].from_pretrained(folder / kind)
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    texts = [f" {text}" for text in texts] if kind == "causal" else texts  # As lm-eval's task does.
    start = time.perf_counter()
    scores = sentence_scores(model, texts)
    return scores.tolist(), time.perf_counter() - start


def theirs(folder, kind):
    """Returns the sums and the seconds of minicons or lm-eval."""
    import transformers

    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / kind)
    if kind == "masked":
        from minicons.scorer import MaskedLMScorer

        cls = type(tokenizer)  # minicons calls a method that Transformers 5 no longer has.
        cls.batch_encode_plus = getattr(cls, "batch_encode_plus", cls.__call__)
        model = transformers.AutoModelForMaskedLM.from_pretrained(folder / kind)
        scorer = MaskedLMScorer(model, "cpu", tokenizer=tokenizer)
        start, scores = time.perf_counter(), []
        for place in range(0, len(texts), 10):
            scores += scorer.sequence_score(texts[place : place + 10], reduction=lambda each: each.sum().item())
        return scores, time.perf_counter() - start
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = transformers.AutoModelForCausalLM.from_pretrained(folder / kind)
    scorer = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=64, device="cpu")
    requests = [Instance("loglikelihood", {}, ("", f" {text}"), place) for place, text in enumerate(texts)]
    start = time.perf_counter()
    scores = [score for score, _ in scorer.loglikelihood(requests, disable_tqdm=True)]
    return scores, time.perf_counter() - start


def run(python, which, folder, kind):
    """Runs a library in a process of its own."""
    command = [python, "-m", "benchmarks.analysis.minimal_pairs", "--worker", which, "--kind", kind]
    done = subprocess.run([*command, "--folder", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--rivals", help="Python of the environment of the other libraries")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--worker", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=RIVALS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return print(json.dumps({"ours": ours, "theirs": theirs}[args.worker](args.folder, args.kind)))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(args.data, folder, args.pairs)
        for kind in args.kinds:
            pythons = {"ours": sys.executable} | ({"theirs": args.rivals} if args.rivals else {})
            found = {name: [] for name in pythons}
            for _ in range(args.rounds):
                for name, python in pythons.items():
                    found[name].append(run(python, name, folder, kind))
            result = {"benchmark": "minimal_pairs", "kind": kind, "pairs": args.pairs}
            result |= {name: statistics.median(seconds for _, seconds in each) for name, each in found.items()}
            if args.rivals:
                difference = np.abs(np.subtract(found["ours"][0][0], found["theirs"][0][0])).max()
                result |= {"rival": RIVALS[kind], "ratio": result["ours"] / result["theirs"]}
                result["largest_difference"] = float(difference)
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
