"""The packing of a `tokenizer.json`."""

import pytest

from keras_transfer.text import Packing
from keras_transfer.text.tokenizer_files.post_processor import read_post_processor, write_post_processor


class Ids:
    def token_to_id(self, token):
        return {"<s>": 0, "</s>": 2}[token]


PACKINGS = [
    Packing(["<s>"], ["</s>", "</s>"], ["</s>"]),
    Packing(["<s>"], ["</s>"], ["</s>"], segments=(0, 1)),
    Packing([], ["</s>"], ["</s>", "<s>"], segments=(0, 1, 2)),
    Packing([], ["</s>"], ["</s>"]),
    Packing(),
]


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packing_is_read_as_it_was_written(packing):
    assert Packing(*read_post_processor(write_post_processor(packing, Ids()))[:3]) == Packing(
        packing.start, packing.between, packing.end
    )
    assert read_post_processor(write_post_processor(packing, Ids()))[3] == packing.segments


def test_the_packings_of_bert_and_roberta_have_names():
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True}
    assert read_post_processor(roberta) == (["<s>"], ["</s>", "</s>"], ["</s>"], None)
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 0]}
    assert read_post_processor(bert) == (["[CLS]"], ["[SEP]"], ["[SEP]"], (0, 1))
    byte_level = {"type": "ByteLevel", "trim_offsets": True}
    both = {"type": "Sequence", "processors": [byte_level, roberta]}
    assert read_post_processor(both) == read_post_processor(roberta)
    assert read_post_processor(byte_level) == read_post_processor(None) == ([], [], [], None)


def test_a_template_that_no_packing_describes_is_an_error():
    template = write_post_processor(PACKINGS[0], Ids())
    template["single"].pop()
    with pytest.raises(ValueError, match="must be packed like a single text"):
        read_post_processor(template)
