"""Reads the WordPiece tokenizer in a folder that Transformers or Google's BERT wrote."""

from keras_transfer.text.strings.normalizer import MAX_WORD_LENGTH
from keras_transfer.text.tokenizer_files.settings import FAST_FILE, only_step, unlike_bert
from keras_transfer.text.tokenizers.bpe import tokens_of
from keras_transfer.text.tokenizers.wordpiece import WordPieceTokenizer, read_lines, trimmed_token


def read_word_piece(folder, family=None):
    """Returns the tokenizer of BERT in a `TokenizerFolder`, from its `vocab.txt` if there is no `tokenizer.json`."""
    config, fast, special = folder.config, folder.fast, folder.special
    folder.check_setting("do_basic_tokenize", True)
    folder.check_setting("never_split", None)
    if fast:
        _check_fast(folder.path / FAST_FILE, fast)
    else:
        folder.check_setting("tokenize_chinese_chars", True)
    if of_text := folder.text_tokens(special.values()):
        raise ValueError(
            f"The tokenizer in {folder.path} has added tokens that are not special, which a WordPiece tokenizer does "
            f"not support. Received: {len(of_text)} tokens, starting with {of_text[:3]}"
        )
    vocabulary = _vocabulary(folder)
    normalizer = only_step(fast.get("normalizer"))
    lowercase = normalizer.get("lowercase", True) if fast else config.get("do_lower_case")
    # Transformers removes these spaces if one of the two says so.
    spaces = config.get("clean_up_tokenization_spaces", not fast)
    return WordPieceTokenizer(
        vocabulary,
        lowercase=not _looks_cased(vocabulary) if lowercase is None else lowercase,
        strip_accents=(normalizer if fast else config).get("strip_accents"),
        clean_up=bool(spaces or (fast.get("decoder") or {}).get("cleanup", bool(fast))),
        unk_token=special.get("unk_token", "[UNK]"),
        mask_token=special.get("mask_token", "[MASK]"),
    )


def _check_fast(path, fast):
    """Raises a `ValueError` that names each setting of a `tokenizer.json` that the tokenizer does not implement."""
    model = fast["model"]
    # Older files do not name the model's type.
    if model.get("type", "WordPiece") != "WordPiece" or model.get("continuing_subword_prefix", "##") != "##":
        raise ValueError(
            f"{path} must be a WordPiece model with the prefix '##'. "
            f"Received: {model.get('type')}, {model.get('continuing_subword_prefix')}"
        )
    wrong, limit = unlike_bert(fast), model.get("max_input_chars_per_word", MAX_WORD_LENGTH)
    if limit != MAX_WORD_LENGTH:
        wrong.append(f"model max_input_chars_per_word={limit} (expected {MAX_WORD_LENGTH})")
    if wrong:
        raise ValueError(f"{path} must split texts as BERT does. Received: {'; '.join(wrong)}")


def _looks_cased(vocabulary):
    """Returns whether lowercasing changes any token other than those in brackets, such as `[CLS]`."""
    words = (token for token in vocabulary if not (token.startswith("[") and token.endswith("]")))
    return any(token != token.lower() for token in words)


def _vocabulary(folder):
    file, added = folder.path / WordPieceTokenizer.vocabulary_file, folder.added
    if not folder.fast and not file.is_file():
        raise FileNotFoundError(f"{folder.path} must contain vocab.txt or tokenizer.json. Received: {folder.names}")
    # Added tokens have ids like all others. The tokenizer ensures that text never becomes one of them.
    ids = folder.fast["model"]["vocab"] if folder.fast else {}
    ids = {**ids, **{token["content"]: token["id"] for token in added}}
    if not file.is_file():
        return tokens_of(ids)
    lines = read_lines(file)
    while lines and lines[-1] == "":
        lines.pop()
    tokens = [*lines, *(token["content"] for token in added if token["id"] >= len(lines))]
    places = {token: index for index, token in enumerate(tokens)}
    if wrong := [token for token, id in ids.items() if places.get(trimmed_token(token)) != id]:
        token, place = wrong[0], places.get(trimmed_token(wrong[0]))
        raise ValueError(
            f"The files in {folder.path} must give each token the same id. Received: {token!r} with the id "
            f"{ids[token]}, and with the id {place} by its place in {file.name} (and {len(wrong) - 1} others)"
        )
    return tokens
