"""Multi30k: captions of images in English, German, French and Czech."""

import os
import pathlib

from keras_transfer.core.expect import expect, expects, one_of
from keras_transfer.core.lines import warn_about_size
from keras_transfer.datasets.parallel_texts import read_parallel
from keras_transfer.datasets.sources import require, split_files
from keras_transfer.datasets.splits import Splits

LANGUAGES = ("en", "de", "fr", "cs")
SIZES = {"train": 29000, "validation": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000}
SIZES |= {"test_2017_mscoco": 461, "test_2018_flickr": 1071}


@expects(source=one_of(*LANGUAGES), target=one_of(*LANGUAGES))
def load_multi30k(
    folder: str | os.PathLike, *, source: str = "en", target: str = "de", skip_empty: bool = False
) -> Splits:
    """Reads Multi30k (Elliott et al. 2016), captions and their translations, from the official raw files.

    A warning says if a split does not have the official number of captions.

    Args:
        folder: Path of the folder `data/task1/raw`, with `train.en`, `train.de`, `val.en` and so on, or with the
            compressed files (`train.en.gz`).
        source: String. Language of the sources: `"en"`, `"de"`, `"fr"` or `"cs"`. Defaults to `"en"`.
        target: String. Language of the targets. Defaults to `"de"`.
        skip_empty: Boolean. See `read_parallel`. Defaults to `False`.

    Returns:
        `Splits` of `ParallelTexts`: `train` with 29,000 captions, `validation` with 1,014, and each test set under the
        name of its files, such as `test_2016_flickr` with 1,000, for the files that exist in both languages.

    Raises:
        FileNotFoundError: If the folder has no split in both languages.
        ValueError: If a language is unknown or both are the same, if a split has two files in a language, or if its
            files cannot be read, as in `read_parallel`.

    Example:
    ```python
    for name, line in {"train.en": "Two dogs run.", "train.de": "Zwei Hunde rennen."}.items():
        with open(name, "w") as file:
            file.write(f"{line}\\n")
    data = keras_transfer.datasets.load_multi30k(".")
    data.train.sources, data.train.targets  # (["Two dogs run."], ["Zwei Hunde rennen."])
    ```

    Source: https://aclanthology.org/W16-3210
    """
    expect(source != target, "`source` and `target` must be two languages.", source=source)
    names = {"train": ["train"], "validation": ["val", "valid"]}
    tests = sorted(path.name.removesuffix(".gz") for path in pathlib.Path(folder).glob("test*.*"))
    names |= {stem: [stem] for stem, _, _ in (name.rpartition(".") for name in tests)}
    expected = f"files such as train.{source} and train.{target}"

    def files_of(language):
        endings = (f".{language}", f".{language}.gz")
        patterns = {split: [stem + end for stem in stems for end in endings] for split, stems in names.items()}
        return split_files(folder, "multi30k", patterns, expected)

    sources, targets = files_of(source), files_of(target)
    splits = {}
    for split in [each for each in sources if each in targets]:
        splits[split] = read_parallel(sources[split], targets[split], skip_empty=skip_empty)
        if split in SIZES:
            warn_about_size(sources[split], len(splits[split].sources), SIZES[split])
    require(splits, folder, expected, "multi30k")
    return Splits(splits)
