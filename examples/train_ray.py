"""Trains a classifier with Ray Train, in several processes on one machine or many.

    pip install "ray[train]"
    python examples/train_ray.py --workers 2 --output classifier.keras
    KERAS_BACKEND=jax python examples/train_ray.py --workers 2 --output classifier.keras

Ray starts the processes and connects them: on TensorFlow by `TensorflowTrainer`, on JAX by `JaxTrainer`. On a cluster,
set RAY_ADDRESS, and use a folder that all machines see. With `--gpus`, each process has as many GPUs.
"""

import argparse
import os
import pathlib
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=2, help="processes")
parser.add_argument("--cpus", type=int, default=1, help="cores of each process")
parser.add_argument("--gpus", type=int, default=0, help="GPUs of each process")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=32, help="rows of all processes together")
parser.add_argument("--texts", type=int, help="train with the first texts only")
parser.add_argument("--output", required=True, help="file of the trained model")
args = parser.parse_args()

try:
    import ray
    from ray.train import RunConfig, ScalingConfig
except ImportError as error:
    sys.exit(f'This example needs Ray Train. Run `pip install "ray[train]"`. Received: {error}')


def train(config):
    """Trains in a process of Ray, as in each process of any other launcher."""
    import keras_transfer as kt

    devices = kt.distribute.initialize(seed=0)  # before anything else uses a device
    data = kt.datasets.load_demo_questions()
    with devices.scope():
        model = kt.tasks.TextClassifier.from_pretrained("minilm-l6", label_names=data.label_names, sequence_length=32)
        model.compile()
    texts, labels = data.train.texts[: config["texts"]], data.train.labels[: config["texts"]]
    history = model.fit(texts, labels, batch_size=config["batch_size"], epochs=config["epochs"], verbose=0).history
    model.save(config["output"])  # The first process writes it.
    index, count = kt.distribute.processes_of()
    print(f"process {index} of {count}: loss {history['loss'][-1]:.6f}")


backend, output = os.environ.get("KERAS_BACKEND", "tensorflow"), pathlib.Path(args.output).resolve()
variables = {"KERAS_BACKEND": backend}
if backend == "jax":
    from ray.train.v2.jax import JaxConfig, JaxTrainer

    # Ray connects processes that have accelerators. `JAX_PLATFORMS` says that these are the cores.
    Trainer, options = JaxTrainer, {"jax_config": JaxConfig(use_gpu=True)}
    variables["JAX_PLATFORMS"] = "cuda" if args.gpus else "cpu"
elif backend == "tensorflow":
    from ray.train.tensorflow import TensorflowTrainer

    Trainer, options = TensorflowTrainer, {}
else:
    sys.exit(f"error: Keras distributes on JAX and TensorFlow only. Received: KERAS_BACKEND={backend}")

local = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(os.cpu_count(), args.workers * args.cpus + 1)}
ray.init(runtime_env={"env_vars": variables}, **local)
resources = {"CPU": args.cpus, "GPU": args.gpus}
trainer = Trainer(
    train,
    train_loop_config={
        "output": str(output),
        **{name: getattr(args, name) for name in ("texts", "batch_size", "epochs")},
    },
    scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=args.gpus > 0, resources_per_worker=resources),
    run_config=RunConfig(name=output.stem, storage_path=str(output.parent / "ray")),
    **options,
)
trainer.fit()
print(output)
