"""How properties are tested: with a few fixed examples, or a search with `KERAS_TRANSFER_TEST_EXAMPLES=1000`."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("KERAS_TRANSFER_TEST_EXAMPLES", 0))
settings.register_profile(
    "tests",
    max_examples=EXAMPLES or 5,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("tests")

WORDS = ["the", "film", "films", "cafe", "caf\u00e9", "cafe\u0301", "don't", "a", "aa", "aaaa", "12", "3,4", "ab"]
SPACES = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2003", "\x85", "\u2028", "\x0b", "\x1c"]
HARD = [
    *("\u0130", "\u1e9e", "\u03a3", "\ufb01", "\uff21", "\u00bd", "\u2167", "\u200b", "\u200d", "\ufeff", "\ufffd"),
    *("\x00", "\x01", "\u2581", "\u0301", "\u1100", "\u1161", "\uac00", "\U0001f600", "\U0001f3fd", "\u05d0"),
    *("\u0627", "\u0e01", "\u65e5\u672c", "[CLS]", "[MASK]", "<s>", "</s>", "<unk>", "<pad>", "##a", "<0x41>"),
    *("\u0120", ".", ",", "'", "!", "-", "_"),
]
characters = st.characters(exclude_categories=["Cs"])
texts = st.lists(
    st.one_of(st.sampled_from(WORDS), st.sampled_from(SPACES), st.sampled_from(HARD), st.text(characters, max_size=3)),
    max_size=12,
).map("".join)
words = st.one_of(
    st.sampled_from(WORDS), st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=6)
)
