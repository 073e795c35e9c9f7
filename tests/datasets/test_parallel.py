"""Sources and targets are read from pairs of files, tables, `.sgm` files and stories, with the first mistake named."""

import gzip
import hashlib
import json

from keras_transfer.datasets import (
    ParallelTexts,
    hold_out,
    load_cnn_dailymail,
    load_multi30k,
    load_xsum,
    read_parallel,
    read_parallel_tsv,
    read_sgm,
    read_stories,
)
from tests.errors import check_errors

PAIRS = ParallelTexts(["A dog.", "Two\u2028cats."], ["Ein Hund.", "Zwei Katzen."])


def write(folder, **files):
    """Writes files, whose names have `__` for a dot, and returns the folder."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        path = folder / name.replace("__", ".")
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return folder


def read_pair(folder, source="A dog.\nTwo\u2028cats.\n", target="Ein Hund.\nZwei Katzen.\n", **options):
    write(folder, a__en=source, a__de=target)
    return read_parallel(folder / "a.en", folder / "a.de", **options)


def test_line_n_of_one_file_belongs_to_line_n_of_the_other(tmp_path):
    assert read_pair(tmp_path) == PAIRS
    assert read_pair(tmp_path, "\ufeff A dog. \r\nTwo\u2028cats.", "Ein Hund.\t\r\nZwei Katzen.") == PAIRS
    write(tmp_path, b__en__gz="\n".join(PAIRS.sources))
    assert read_parallel(tmp_path / "b.en.gz", str(tmp_path / "a.de")) == PAIRS
    train, validation = hold_out(ParallelTexts(PAIRS.sources * 4, PAIRS.targets * 4), 0.25)
    assert isinstance(train, ParallelTexts) and (len(train.targets), len(validation.sources)) == (6, 2)


def test_rows_with_an_empty_text_are_left_out_if_asked(tmp_path, caplog):
    found = read_pair(
        tmp_path, "A dog.\n\nBirds.\nTwo\u2028cats.\n", "Ein Hund.\nLeer.\n \nZwei Katzen.\n", skip_empty=True
    )
    assert found == PAIRS
    assert "2 of 4 rows have an empty text and are left out" in caplog.text


test_mistakes_in_two_files_are_one_error = check_errors(
    (lambda tmp_path: read_pair(tmp_path, target="Ein Hund.\n"), "a.de, line 2: Expected 2 lines, as in ... a.en"),
    (lambda tmp_path: read_pair(tmp_path, source=""), "a.en, line 1: Expected 2 lines ... the end of the file"),
    (lambda tmp_path: read_pair(tmp_path, "", ""), "a.en: Expected at least one row. Received: no rows"),
    (lambda tmp_path: read_pair(tmp_path, "\n", "\n", skip_empty=True), "a.en: Expected at least one row"),
    (
        lambda tmp_path: read_pair(tmp_path, target="Ein Hund.\n \n"),
        "a.de, line 2: Expected a text. Pass `skip_empty=True` ... there are 1. Received: an empty target",
    ),
    (
        lambda tmp_path: read_pair(tmp_path, b"A dog.\nCaf\xe9.\n"),
        "a.en, line 2: Expected UTF-8. Received: b'\\xe9.\\n'",
    ),
    (
        lambda tmp_path: read_parallel(tmp_path / "a.en", write(tmp_path, b__de="x") / "b.de"),
        FileNotFoundError,
        "The file does not exist. Received: ... a.en in a folder with ['b.de']",
    ),
    (lambda tmp_path: read_cut(tmp_path), "a.en.gz: Expected a complete gzip file"),
)


def read_cut(folder):
    write(folder, a__en__gz="A dog.\n" * 99, a__de="Ein Hund.\n" * 99)
    (folder / "a.en.gz").write_bytes((folder / "a.en.gz").read_bytes()[:-9])
    return read_parallel(folder / "a.en.gz", folder / "a.de")


def read_tsv(folder, text, **options):
    return read_parallel_tsv(write(folder, a__tsv=text) / "a.tsv", **options)


def test_a_table_has_a_source_a_tab_and_a_target(tmp_path):
    assert read_tsv(tmp_path, 'She "go .\tShe "goes .\n') == (['She "go .'], ['She "goes .'])
    assert read_tsv(tmp_path, "1\ta\tb\n2\tc\td\n", columns=(2, 1)) == (["b", "d"], ["a", "c"])
    assert read_tsv(tmp_path, "a\tb\n\tc\n", skip_empty=True) == (["a"], ["b"])


test_mistakes_in_a_table_are_one_error = check_errors(
    (lambda tmp_path: read_tsv(tmp_path, "a\tb\nc\n"), "a.tsv, line 2: Expected 2 columns ... 1 columns, ['c']"),
    (lambda tmp_path: read_tsv(tmp_path, "a\tb\tc\n"), "line 1: Expected 2 columns, separated by tabs. Pass `columns`"),
    (lambda tmp_path: read_tsv(tmp_path, "a\tb\n", columns=(0, 2)), "line 1: Expected 3 columns ... 2 columns"),
)


# === Multi30k ===


def test_multi30k_has_the_splits_that_exist_in_both_languages(tmp_path, caplog):
    write(tmp_path, train__en="A dog.\n", train__de__gz="Ein Hund.\n", val__en__gz="A cat.\n", val__de="Eine Katze.\n")
    write(tmp_path, test_2016_flickr__en="A bird.\n", test_2016_flickr__de="Ein Vogel.\n", test_2018_flickr__en="A.\n")
    write(tmp_path, train__fr="Un chien.\n", notes__en="x\n")
    data = load_multi30k(tmp_path)
    assert list(data) == ["train", "validation", "test_2016_flickr"]
    assert data.validation == (["A cat."], ["Eine Katze."])
    assert "train.en has 1 rows. The official file has 29,000." in caplog.text
    assert load_multi30k(tmp_path, source="fr", target="de") == {"train": (["Un chien."], ["Ein Hund."])}


def test_multi30k_finds_test_sets_whose_names_have_further_dots(tmp_path):
    (tmp_path / "test_2016_flickr.lc.norm.tok.en").write_text("a bird .\n")
    (tmp_path / "test_2016_flickr.lc.norm.tok.de").write_text("ein vogel .\n")
    assert list(load_multi30k(tmp_path)) == ["test_2016_flickr.lc.norm.tok"]


test_mistakes_in_multi30k_are_one_error = check_errors(
    (lambda tmp_path: load_multi30k(tmp_path, target="en"), "must be two languages. Received: source='en'"),
    (
        lambda tmp_path: load_multi30k(write(tmp_path, train__en="A.\n")),
        FileNotFoundError,
        "such as train.en and train.de. Get the folder data/task1/raw of https://github.com/multi30k/dataset. ... "
        "with ['train.en']",
    ),
    (
        lambda tmp_path: load_multi30k(write(tmp_path, train__en="A.\n", train__en__gz="A.\n")),
        "A split must have one file. Received: ... train.en.gz",
    ),
    (lambda tmp_path: load_multi30k(write(tmp_path, val__en="A.\nB.\n", val__de="A.\n")), "val.de, line 2: Expected 2"),
)


# === WMT ===

SOURCE = """<srcset setid="test" srclang="de">
<doc docid="news-1" origlang="de">
<hl><seg id="1">Ein Hund &amp; Co.</seg></hl>
<p>
<seg id="2"> 3 < 4
Katzen </seg>
</p>
</doc>
<DOC docid='news-2'>
<seg id=1>Vögel</seg>
</DOC>
</srcset>
"""


def reference(lines=("A dog &#38; co.", "3 &lt; 4 cats", "Birds"), name="ref"):
    doc = '<doc docid="news-{}" sysid="{}">\n{}</doc>\n'
    segments = ['<seg id="{}">{}</seg>\n'.format(*pair) for pair in zip((1, 2, 1), lines)]
    return doc.format(2, name, segments[2]) + doc.format(1, name, "".join(segments[:2]))


def read_set(folder, source=SOURCE, target=None, **options):
    target = f"<refset setid='test'>{reference()}</refset>" if target is None else target
    write(folder, src__sgm=source, ref__sgm=target)
    return read_sgm(folder / "src.sgm", folder / "ref.sgm", **options)


def test_segments_of_wmt_belong_to_those_of_the_same_document_and_number(tmp_path):
    expected = ["Ein Hund & Co.", "3 < 4 Katzen", "Vögel"], ["A dog & co.", "3 < 4 cats", "Birds"]
    assert read_set(tmp_path) == expected
    assert read_set(tmp_path, target=reference().replace('sysid="ref"', 'sysid="other"', 1)) == expected
    several = reference(name="A") + reference(("One", "Two", "Three"), name="B")
    assert read_set(tmp_path, target=several, reference="A") == expected
    assert read_set(tmp_path, target=several, reference="B").targets == ["One", "Two", "Three"]
    several = f"<refset refid='A'>{reference()}</refset><refset refid='B'>{reference(('One', 'Two', 'Three'))}</refset>"
    assert read_set(tmp_path, target=several, reference="B").targets == ["One", "Two", "Three"]


test_mistakes_in_sgm_are_one_error = check_errors(
    (
        lambda tmp_path: read_set(tmp_path, target=reference() + reference(name="B")),
        "ref.sgm: Pass `reference`, one of the translations ['ref', 'B']. Received: reference=None",
    ),
    (lambda tmp_path: read_set(tmp_path, reference="C"), "one of the translations ['ref']. Received: reference='C'"),
    (
        lambda tmp_path: read_set(tmp_path, target=reference().replace('id="2"', 'id="3"')),
        "ref.sgm: Expected segment 2 of document 'news-1', as in ... src.sgm, line 5",
    ),
    (
        lambda tmp_path: read_set(tmp_path, SOURCE.replace("<seg id=1>Vögel</seg>", "")),
        "src.sgm: Expected segment 1 of document 'news-2', as in ... ref.sgm, line 2",
    ),
    (
        lambda tmp_path: read_set(tmp_path, SOURCE.replace('id="2"', 'id="1"')),
        "src.sgm, line 5: Expected the next segment ... Received: segment 1 again, as in line 3",
    ),
    (
        lambda tmp_path: read_set(tmp_path, SOURCE.replace(" id=1", "")),
        "src.sgm, line 10: Expected a segment with an id",
    ),
    (
        lambda tmp_path: read_set(tmp_path, SOURCE.replace("Co.</seg>", "Co.")),
        "line 5: Expected </seg>. Received: <seg",
    ),
    (lambda tmp_path: read_set(tmp_path, SOURCE[:-17]), "src.sgm: Expected </doc>. The file may have been cut"),
    (lambda tmp_path: read_set(tmp_path, '<seg id="1">a</seg>'), "src.sgm, line 1: Expected <doc>. Received: <seg id"),
    (lambda tmp_path: read_set(tmp_path, "Ein Hund.\n"), "src.sgm: Expected at least one segment. Received: 'Ein Hund"),
    (lambda tmp_path: read_set(tmp_path, SOURCE.replace("Vögel", " ")), "src.sgm, line 10: Expected a text"),
)


# === Summaries ===


def test_xsum_and_cnn_dailymail_are_read_from_tables_and_from_pairs_of_files(tmp_path):
    rows = [{"id": "1", "document": "Rain.\nMore, rain.", "summary": "Wet."}, {"document": "Sun.", "summary": "Dry."}]
    lines = "\n".join(map(json.dumps, rows))
    write(tmp_path / "x", train__jsonl=lines, val__json__gz=lines, test__source="Rain.\n", test__target="Wet.\n")
    data = load_xsum(tmp_path / "x")
    assert data.train == data.validation == (["Rain.\nMore, rain.", "Sun."], ["Wet.", "Dry."])
    assert list(data) == ["train", "validation", "test"] and data.test == (["Rain."], ["Wet."])
    table = 'id,article,highlights\n1,"Rain, and\nmore.","Wet .\nWetter ."\n'
    data = load_cnn_dailymail(write(tmp_path / "c", test__csv=table))
    assert data == {"test": (["Rain, and\nmore."], ["Wet .\nWetter ."])}


def read_xsum(folder, skip_empty=False, **files):
    return load_xsum(write(folder, **files), skip_empty=skip_empty)


ROW = '{"document": "Rain.", "summary": "Wet."}\n'
test_mistakes_in_summaries_are_one_error = check_errors(
    (
        lambda tmp_path: read_xsum(tmp_path, train__jsonl=f'{ROW}\n{{"document": "Rain."}}\n'),
        "train.jsonl, line 3: Expected an object with 'summary'",
    ),
    (lambda tmp_path: read_xsum(tmp_path, train__jsonl=ROW.replace("Wet.", "")), "line 1: Expected a text ... target"),
    (lambda tmp_path: read_xsum(tmp_path, val__jsonl=ROW, dev__jsonl=ROW), "A split must have one file. Received"),
    (lambda tmp_path: read_xsum(tmp_path, test__source="a\n"), FileNotFoundError, "test.target in a folder with"),
    (
        lambda tmp_path: load_cnn_dailymail(write(tmp_path, readme="")),
        FileNotFoundError,
        "such as train.jsonl, train.csv, or train.source and train.target. Get the stories from ... with ['readme']",
    ),
)

STORY = "(CNN) -- It rained.\n\nAll day.\n\n@highlight\n\nA wet\nday\n\n@highlight\n\nNo sun\n"


def test_stories_are_articles_with_their_highlights_in_the_order_of_a_list(tmp_path):
    addresses = ["http://x/2", "http://x/1"]
    names = [hashlib.sha1(each.encode()).hexdigest() for each in addresses]
    write(tmp_path / "cnn", **{f"{names[0]}__story": STORY})
    write(tmp_path / "dm", **{f"{names[1]}__story": "Sun.\n@highlight\nDry\n", "0__story": "x\n@highlight\ny\n"})
    write(tmp_path, all__txt="\n".join(addresses))
    found = read_stories([tmp_path / "cnn", tmp_path / "dm"], urls=tmp_path / "all.txt")
    assert found == (["(CNN) -- It rained. All day.", "Sun."], ["A wet day\nNo sun", "Dry"])
    assert read_stories(tmp_path / "dm").targets == ["y", "Dry"]


def story(folder, text):
    return read_stories(write(folder, a__story=text))


test_mistakes_in_stories_are_one_error = check_errors(
    (lambda tmp_path: story(tmp_path, "Rain.\n"), "a.story: Expected a text ... Received: an empty target"),
    (
        lambda tmp_path: story(tmp_path, STORY.replace("A wet\nday\n", "")),
        "a.story, line 8: Expected the text of a high",
    ),
    (lambda tmp_path: story(tmp_path, STORY[:-7]), "a.story: Expected the text of the last highlight"),
    (lambda tmp_path: read_stories(tmp_path), FileNotFoundError, "The folder must contain files NAME.story. Get"),
    (
        lambda tmp_path: read_stories(write(tmp_path, a__story=STORY, u__txt="http://x\n"), urls=tmp_path / "u.txt"),
        FileNotFoundError,
        "u.txt, line 1: Expected an address whose story ... Received: 'http://x'",
    ),
)
