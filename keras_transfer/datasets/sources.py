"""Where each dataset comes from: the page of its authors, and the files that `download` fetches."""

import pathlib
from typing import NamedTuple

SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"


class Source(NamedTuple):
    """Where to get a dataset: advice in a sentence, and URLs with sha256 checksums if a download is allowed."""

    advice: str
    files: dict = {}


SOURCES = {
    "glue": Source("Get the tasks from https://gluebenchmark.com/tasks."),
    "superglue": Source("Get the tasks from https://super.gluebenchmark.com/tasks."),
    "imdb": Source("Get aclImdb_v1.tar.gz from https://ai.stanford.edu/~amaas/data/sentiment/ and unpack it."),
    "ag_news": Source(
        "Get train.csv and test.csv from the folder ag_news_csv of X. Zhang's datasets for text classification, "
        "see https://github.com/zhangxiangxiao/Crepe."
    ),
    "squad1.1": Source(
        "Get train-v1.1.json and dev-v1.1.json from https://rajpurkar.github.io/SQuAD-explorer/ (CC BY-SA 4.0), "
        'or with `download("squad1.1")`.',
        {
            f"{SQUAD}train-v1.1.json": "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
            f"{SQUAD}dev-v1.1.json": "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        },
    ),
    "squad2.0": Source(
        "Get train-v2.0.json and dev-v2.0.json from https://rajpurkar.github.io/SQuAD-explorer/ (CC BY-SA 4.0), "
        'or with `download("squad2.0")`.',
        {
            f"{SQUAD}train-v2.0.json": "68dcfbb971bd3e96d5b46c7177b16c1a4e7d4bdef19fb204502738552dede002",
            f"{SQUAD}dev-v2.0.json": "80a5225e94905956a6446d296ca1093975c4d3b3260f1d6c8f68bc2ab77182d8",
        },
    ),
    "conll2003": Source(
        "Get the annotations from https://www.clips.uantwerpen.be/conll2003/ner/. They require the Reuters corpus, "
        "which NIST licenses: https://trec.nist.gov/data/reuters/reuters.html."
    ),
    "universal_dependencies": Source("Get a treebank from https://universaldependencies.org."),
    "trec6": Source("Get train_5500.label and TREC_10.label from https://cogcomp.seas.upenn.edu/Data/QA/QC/."),
    "personachat": Source(
        "Get the files of ConvAI2 with ParlAI (https://parl.ai): `parlai display_data --task convai2` downloads them."
    ),
    "swag": Source(
        "Get train.csv, val.csv and test.csv from https://github.com/rowanz/swagaf/tree/master/data (MIT licence)."
    ),
    "copa": Source("Get COPA-resources.tgz from https://asgordon.github.io/copa.html and unpack it."),
    "race": Source("Get RACE.tar.gz from https://www.cs.cmu.edu/~glai1/data/race/ and unpack it."),
    "wikitext": Source(
        "Get wikitext-2-v1.zip or wikitext-103-v1.zip from https://wikitext.smerity.com (CC BY-SA 3.0) and unpack it."
    ),
    "multi30k": Source("Get the folder data/task1/raw of https://github.com/multi30k/dataset."),
    "xsum": Source("Get the documents and summaries as https://github.com/EdinburghNLP/XSum describes."),
    "cnn_dailymail": Source(
        "Get the stories from https://cs.nyu.edu/~kcho/DMQA/, and the lists of their addresses from "
        "https://github.com/abisee/cnn-dailymail."
    ),
    "blimp": Source("Get the folder data of https://github.com/alexwarstadt/blimp (CC BY 4.0)."),
}


def split_files(folder, dataset, names, expected=None, every=False):
    """Returns a dict from the splits of a dataset to their files, for the splits that have one.

    Args:
        names: Dict from splits to the names that their file may have, patterns as for `Path.glob`.
        expected: String. The files that an error names if there is none. Defaults to `None`, the first name of each.
        every: Boolean. Whether each split must have a file.
    """
    folder, found = pathlib.Path(folder), {}
    for split, patterns in names.items():
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
        if len(paths) > 1:
            raise ValueError(f"A split must have one file. Received: {[str(path) for path in paths]}")
        require(paths or not every, folder, " or ".join(patterns), dataset)
        if paths:
            found[split] = paths[0]
    require(found, folder, expected or ", ".join(patterns[0] for patterns in names.values()), dataset)
    return found


def require(found, folder, expected, dataset):
    """Raises a `FileNotFoundError`, which says where to get a dataset, if its files were not found in a folder."""
    if not found:
        raise FileNotFoundError(
            f"The folder must contain {expected}. {SOURCES[dataset].advice} Received: {folder} with {_names_in(folder)}"
        )


def _names_in(folder):
    folder = pathlib.Path(folder)
    return sorted(path.name for path in folder.glob("*"))[:8] if folder.is_dir() else "no such folder"


def existing_file(path, dataset=None):
    """Returns the path of a file as a `pathlib.Path`. If no dataset is named, it is the user's own."""
    path = pathlib.Path(path)
    if not path.is_file():
        advice = "" if dataset is None else f" {SOURCES[dataset].advice}"
        raise FileNotFoundError(
            f"The file does not exist.{advice} Received: {path} in a folder with {_names_in(path.parent)}"
        )
    return path
