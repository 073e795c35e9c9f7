"""The pictures of comparisons: what they show, and the mistakes that they refuse."""

import pickle

import numpy as np
import pytest

from keras_transfer.experiments import Comparison, plot_learning_curves
from tests.errors import check_errors

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'keras_transfer[plots]'")


def comparison(scores, metric="accuracy"):
    """A comparison in which each method has these scores of its seeds on the test data, and 0.1 less in validation."""
    fixed = {"definition": "", "step_seconds": 0.1, "seconds": 1.0, "trainable": 1, "parameters": 2}
    runs = {
        name: [{"validation": value - 0.1, "test": value, **fixed} for value in values]
        for name, values in scores.items()
    }
    return Comparison(runs, metric, "max", next(iter(scores)))


def drawn(axes):
    """The means and the halves of the intervals of each row of a plot."""
    return [
        (
            np.asarray(container.lines[0].get_data(), float),
            [np.ptp(part, axis=0) / 2 for part in container.lines[2][0].get_segments()],
        )
        for container in axes.containers
    ]


def test_differences_are_plotted_with_the_interval_of_paired_seeds():
    axes = comparison({"plain": [0.5, 0.6], "better": [0.7, 0.82]}).plot(differences=True).axes[0]
    (_, validation), (test, widths) = drawn(axes)
    assert len(validation) == 2
    np.testing.assert_allclose(test[0], [0.0, 0.21], atol=1e-9)
    # The differences are 0.20 and 0.22, and the quantile of one degree of freedom is 12.706.
    np.testing.assert_allclose([width[0] for width in widths], [0.0, 12.706 * 0.01], rtol=1e-4, atol=1e-9)
    assert axes.get_xlabel() == "difference of accuracy from 'plain'\nmean of 2 seeds with its 95% interval"


def test_a_learning_curve_has_the_mean_score_of_each_number_of_examples():
    comparisons = {count: comparison({"a": [count / 1000] * 2, "b": [0.5, 0.5]}) for count in (500, 50)}
    axes = plot_learning_curves(comparisons).axes[0]
    (first, _), (second, _) = drawn(axes)
    np.testing.assert_allclose(first, [[50, 500], [0.05, 0.5]])
    np.testing.assert_allclose(second[1], [0.5, 0.5])
    assert axes.get_ylabel() == "test accuracy"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    # Styles differ in more than color.
    assert len({container.lines[0].get_linestyle() for container in axes.containers}) == 2
    assert len(plot_learning_curves(comparisons, methods=["b"]).axes[0].containers) == 1


test_a_mistake_is_one_error = check_errors(
    (lambda: plot_learning_curves({}), "`comparisons` must be a dict from positive numbers of examples"),
    (lambda: plot_learning_curves({0: comparison({"a": [0.1]})}), "Received: count=0, comparison='Comparison'"),
    (lambda: plot_learning_curves({"few": comparison({"a": [0.1]})}), "Received: count='few', comparison='Comparison'"),
    (lambda: plot_learning_curves({5: {"a": 0.1}}), "Received: count=5, comparison='dict'"),
    (lambda: plot_learning_curves({5: comparison({"a": [0.1]})}, methods="a"), "Did you mean ['a']?"),
    (lambda: comparison({"a": [0.1, 0.2], "b": [0.1]}), "the same number of runs"),
    (
        lambda: plot_learning_curves({1: comparison({"a": [0.1]}), 2: comparison({"b": [0.1]})}),
        "count=2, missing=['a']",
    ),
    (
        lambda: plot_learning_curves({1: comparison({"a": [0.1]}), 2: comparison({"a": [0.1]}, "f1")}),
        "the same metric. Received: metrics=['accuracy', 'f1']",
    ),
    (
        lambda: plot_learning_curves({1: comparison({str(name): [0.1] for name in range(7)})}),
        "at most 6 methods",
    ),
)


def test_a_notebook_draws_a_figure_and_a_table(tmp_path):
    found = comparison({"a": [0.5, 0.6], "b|c": [0.7, 0.8]})
    figure = found.plot()
    figure.savefig(tmp_path / "figure.png")
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert type(pickle.loads(pickle.dumps(figure))).__name__ == "Figure"
    assert found._repr_html_().count("<tr>") == 3 and "b|c" in found._repr_html_()
