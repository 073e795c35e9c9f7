"""BLEU, chrF and TER, the metrics of translations, by the package sacrebleu."""

import itertools
from typing import Any

import keras

from keras_transfer.core.expect import expects, integer
from keras_transfer.core.names import look_up
from keras_transfer.metrics.text_metric import TextMetric, missing_package


class SacreBleuMetric(TextMetric):
    """Base class of the metrics that sacrebleu computes, with its settings, from all texts of a corpus together."""

    of_package: str | None = None  # The name of sacrebleu's class.
    names_in_package = {}  # Arguments that are names -> the attribute of sacrebleu's class that lists them.

    def __init__(self, name):
        super().__init__(name)
        try:
            import sacrebleu
        except ImportError as error:
            raise missing_package(type(self), "sacrebleu", error) from error
        cls = getattr(sacrebleu, self.of_package)
        for argument, constant in self.names_in_package.items():
            known = look_up(getattr(self, argument), getattr(cls, constant), f"value of `{argument}`")
            setattr(self, argument, known)
        self._scorer = cls(**{argument: value for argument, value in self.get_config().items() if argument != "name"})

    def score(self, y_true: Any, y_pred: Any) -> Any:
        # sacrebleu has one list for each number of a reference, with None where a text has fewer.
        return float(self._scorer.corpus_score(y_pred, list(map(list, itertools.zip_longest(*y_true)))).score)

    @property
    def signature(self) -> str:
        """String. The settings and the version of sacrebleu, which should accompany a published score.

        Raises:
            ValueError: If no result was computed.
        """
        if not hasattr(self._scorer, "num_refs"):
            raise ValueError(
                f"The signature contains the number of references. Call `result()` first. Received: {self.name!r} "
                "without a result"
            )
        return str(self._scorer.get_signature())


@keras.saving.register_keras_serializable(package="keras_transfer")
class Bleu(SacreBleuMetric):
    """BLEU of all texts together, from 0 to 100, by `sacrebleu`.

    The texts must not be tokenized, because sacrebleu tokenizes them. `signature` says how. If the texts of a corpus
    are short, such as single words, none has an n-gram of the maximum order, and BLEU is 0 unless
    `effective_order=True`.

    Args:
        tokenize: String. sacrebleu's tokenizer: `"13a"`, `"intl"`, `"zh"`, `"char"`, `"none"` or others that require
            further packages. Defaults to `"13a"`, which WMT uses.
        lowercase: Boolean. Whether to ignore case. Defaults to `False`.
        smooth_method: String. What replaces a precision of 0: `"exp"`, `"floor"`, `"add-k"` or `"none"`. Defaults to
            `"exp"`.
        smooth_value: Float. Value for `"floor"` and `"add-k"`. Defaults to `None`, `0.1` and `1`.
        max_ngram_order: Integer. Maximum length of the n-grams. Defaults to `4`.
        effective_order: Boolean. Whether only the orders that the texts contain count. Defaults to `False`.
        name: String. Name of the metric. Defaults to `"bleu"`.

    Call arguments:
        - `y_true`: List `[rows]` with the reference of each row, a string, or with a list of several references.
        - `y_pred`: List of strings `[rows]`. The generated text of each row.

    Raises:
        ImportError: If the package `sacrebleu` is not installed.
        ValueError: If the texts are invalid.

    Example:
    ```python
    bleu = keras_transfer.metrics.Bleu()
    bleu([["The dog barks at the cat.", "A dog barks at a cat."]], ["The dog barks at a big cat."])  # 59.46...
    bleu.signature  # nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:...
    ```

    Source: https://aclanthology.org/P02-1040; https://aclanthology.org/W18-6319
    """

    of_package = "BLEU"
    names_in_package = {"tokenize": "TOKENIZERS", "smooth_method": "SMOOTH_DEFAULTS"}

    @expects(max_ngram_order=integer(1))
    def __init__(
        self,
        *,
        tokenize: str = "13a",
        lowercase: bool = False,
        smooth_method: str = "exp",
        smooth_value: float | None = None,
        max_ngram_order: int = 4,
        effective_order: bool = False,
        name: str = "bleu",
    ):
        self.tokenize, self.lowercase, self.smooth_method = tokenize, lowercase, smooth_method
        self.smooth_value, self.max_ngram_order, self.effective_order = smooth_value, max_ngram_order, effective_order
        super().__init__(name)


@keras.saving.register_keras_serializable(package="keras_transfer")
class Chrf(SacreBleuMetric):
    """chrF, the F-score of character n-grams of all texts together, from 0 to 100, by `sacrebleu`.

    It needs no tokenizer, and suits all scripts and languages with long words.

    Args:
        char_order: Integer. Maximum length of the n-grams of characters. Defaults to `6`.
        word_order: Integer. Maximum length of the n-grams of words. `2` for chrF++. Defaults to `0`.
        beta: Integer. How many times as important recall is as precision. Defaults to `2`.
        lowercase: Boolean. Whether to ignore case. Defaults to `False`.
        whitespace: Boolean. Whether spaces count. Defaults to `False`.
        name: String. Name of the metric. Defaults to `"chrf"`.

    Call arguments:
        - `y_true`: List `[rows]` with the reference of each row, a string, or with a list of several references.
        - `y_pred`: List of strings `[rows]`. The generated text of each row.

    Raises:
        ImportError: If the package `sacrebleu` is not installed.
        ValueError: If the texts are invalid.

    Example:
    ```python
    keras_transfer.metrics.Chrf(word_order=2)(["The dog barks."], ["The dogs bark."])  # 45.80...
    ```

    Source: https://aclanthology.org/W15-3049; https://aclanthology.org/W17-4770
    """

    of_package = "CHRF"

    @expects(char_order=integer(1), word_order=integer(0), beta=integer(1))
    def __init__(
        self,
        *,
        char_order: int = 6,
        word_order: int = 0,
        beta: int = 2,
        lowercase: bool = False,
        whitespace: bool = False,
        name: str = "chrf",
    ):
        self.char_order, self.word_order, self.beta = char_order, word_order, beta
        self.lowercase, self.whitespace = lowercase, whitespace
        super().__init__(name)


@keras.saving.register_keras_serializable(package="keras_transfer")
class Ter(SacreBleuMetric):
    """The translation edit rate of all texts together, in percent, by `sacrebleu`. Lower is better.

    It is the number of insertions, deletions, substitutions and shifts of words that turn a text into its closest
    reference, divided by the mean number of words of its references. It can be above 100.

    Args:
        normalized: Boolean. Whether to separate punctuation from words. Defaults to `False`.
        no_punct: Boolean. Whether to remove punctuation. Defaults to `False`.
        asian_support: Boolean. Whether `normalized` and `no_punct` also apply to Chinese, Japanese and Korean
            characters. Defaults to `False`.
        case_sensitive: Boolean. Whether case matters. Defaults to `False`.
        name: String. Name of the metric. Defaults to `"ter"`.

    Call arguments:
        - `y_true`: List `[rows]` with the reference of each row, a string, or with a list of several references.
        - `y_pred`: List of strings `[rows]`. The generated text of each row.

    Raises:
        ImportError: If the package `sacrebleu` is not installed.
        ValueError: If the texts are invalid.

    Example:
    ```python
    keras_transfer.metrics.Ter()(["the dog barks loudly"], ["the dog barks"])  # 25.0
    ```

    Source: https://aclanthology.org/2006.amta-papers.25
    """

    of_package = "TER"
    monitor_mode = "min"

    def __init__(
        self,
        *,
        normalized: bool = False,
        no_punct: bool = False,
        asian_support: bool = False,
        case_sensitive: bool = False,
        name: str = "ter",
    ):
        self.normalized, self.no_punct = normalized, no_punct
        self.asian_support, self.case_sensitive = asian_support, case_sensitive
        super().__init__(name)
