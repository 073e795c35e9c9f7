"""A search for the best answers in a TensorFlow graph, given the scores of their starts and ends."""


def best_spans(logits, windows, count, max_length, no_answer_threshold=None):
    """Returns the most likely answers to each question.

    An answer is a span of at most `max_length` tokens of a context that some window contains. Its score is the sum of
    the logits of its first and its last token, the highest in all windows that contain it. If a question may have no
    answer, the score of no answer is the lowest sum of the two logits at the first position of all windows, minus the
    threshold. A softmax over all these scores returns their probabilities.

    Args:
        logits: Float tensor `[windows, 2, length]`, of starts and of ends.
        windows: `ContextWindows`.
        count: Integer. Number of answers for each question.
        max_length: Integer. Number of tokens of the longest answer.
        no_answer_threshold: Float. The threshold. Defaults to `None`, for questions that always have an answer.

    Returns:
        A dict of tensors `[examples, count]`, the most likely answer first: `score`, the probability; `start` and
        `end`, the first character in the context and the position after the last one, both -1 if there is no answer;
        and `found`, False at places after the last answer. `no_answer_score` `[examples]` is the score of no answer
        minus the score of the best span.

    Source: Devlin et al. 2019, "BERT", section 4.3; https://github.com/google-research/bert (`run_squad.py`).
    """
    import tensorflow as tf

    infinity = float("inf")
    logits, example, starts, ends = map(tf.convert_to_tensor, (logits, windows.example, windows.starts, windows.ends))
    length = tf.shape(starts)[1]

    # Score the spans that begin at each position of a window, by their length. Tokens without characters, such as
    # special tokens, cannot be part of an answer.
    last = tf.range(length)[:, None] + tf.range(max_length)
    inside, last = last < length, tf.minimum(last, length - 1)
    possible = inside & (starts >= 0)[:, :, None] & (tf.gather(ends, last, axis=1) > starts[:, :, None])
    spans = tf.where(possible, logits[:, 0, :, None] + tf.gather(logits[:, 1], last, axis=1), -infinity)

    # Number the tokens of all contexts consecutively, and find the best score of each span over all its windows.
    token = (windows.first - windows.position)[:, None] + tf.range(length)
    sizes = tf.math.segment_max(tf.reduce_max(tf.where(starts >= 0, token + 1, 0), axis=1), example)
    before, tokens = tf.cumsum(sizes, exclusive=True), tf.reduce_sum(sizes)
    token = tf.where(starts >= 0, tf.gather(before, example)[:, None] + token, -1)  # Segment ids of -1 are dropped.

    def by_token(values):
        return tf.math.unsorted_segment_max(values, token, tokens)

    starts, ends, spans = by_token(starts), by_token(ends), by_token(spans)
    spans = tf.where(spans > spans.dtype.min, spans, -infinity)  # An empty segment has the lowest value of its type.
    total = tf.reduce_logsumexp(spans, axis=1)
    score, place = tf.math.top_k(tf.pad(spans, [[0, 0], [0, count]], constant_values=-infinity), count)
    end = tf.gather(ends, tf.minimum(tf.range(tokens)[:, None] + place, tokens - 1))
    start = tf.repeat(starts[:, None], count, axis=1)

    # Choose the best spans of all tokens of an example.
    def by_example(values, padding):
        return tf.RaggedTensor.from_row_lengths(values, sizes, validate=False).to_tensor(padding)

    def best_first(values, padding):
        rows = by_example(values, padding)
        rows = tf.reshape(rows, [tf.shape(rows)[0], tf.shape(rows)[1] * count])
        return tf.pad(rows, [[0, 0], [0, count]], constant_values=padding)

    total = tf.reduce_logsumexp(by_example(total, -infinity), axis=1)
    score, start, end = best_first(score, -infinity), best_first(start, -1), best_first(end, -1)
    none = tf.math.segment_min(logits[:, 0, 0] + logits[:, 1, 0], example)[:, None]
    no_answer_score = none[:, 0] - tf.reduce_max(score, axis=1)
    if no_answer_threshold is not None:
        none -= no_answer_threshold
        score, total = tf.concat([none, score], 1), tf.reduce_logsumexp(tf.stack([none[:, 0], total]), axis=0)
        start, end = (tf.pad(values, [[0, 0], [1, 0]], constant_values=-1) for values in (start, end))
    score, place = tf.math.top_k(score, count)
    start, end = (tf.gather(values, place, batch_dims=1) for values in (start, end))
    found = score > -infinity
    start, end = (tf.where(found, values, -1) for values in (start, end))
    return {
        "score": tf.where(found, tf.exp(score - total[:, None]), 0.0),
        "start": start,
        "end": end,
        "found": found,
        "no_answer_score": no_answer_score,
    }


def take_characters(texts, starts, ends):
    """Returns parts of texts `[batch]` from one character to another, `""` where the start is negative."""
    import tensorflow as tf

    real = starts >= 0
    return tf.strings.substr(texts, tf.where(real, starts, 0), tf.where(real, ends - starts, 0), unit="UTF8_CHAR")
