"""The picture of the methods: which runs it shows, in which order, and what it leaves out."""

import json

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'keras_transfer[plots]'")


def test_the_chosen_variant_is_drawn_and_methods_that_are_far_behind_are_named(tool, tmp_path):
    lines = [{"settings": {}}]
    scores = {
        ("full", "f(rate=1e-4)"): [0.90, 0.92],
        ("LoRA", "f(rate=3e-4)"): [0.99],
        ("LoRA", "f(rate=1e-3)"): [0.88, 0.9],
        ("LoRA", "f(rate=3e-3)"): [0.87, 1],
        ("new", "f(rate=1e-4)"): [0.5],
    }
    scores |= {
        ("EWC", "f(rate=3e-4)"): [0.93, 0.99],
        ("EWC", "f(rate=1e-4)"): [0.93, 0.93],
        ("frozen", "f(rate=1e-2)"): [0.6, 0.62],
    }
    fixed = {"step_seconds": 0.1, "seconds": 1.0, "trainable": 1, "parameters": 2}
    for (method, definition), values in scores.items():
        for seed, value in enumerate(values):
            run = {"method": method, "definition": definition, "seed": seed, "validation": value, "test": value}
            lines.append({**run, **fixed})
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    axes = tool("plot_results").draw(tmp_path / "runs.jsonl").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["EWC", "full", "LoRA"]
    assert axes.get_xlabel().endswith("2 seeds with its 95% interval\nnot shown: frozen, -30.0")
    assert list(axes.containers[1].lines[0].get_xdata()) == pytest.approx([2.0, 0.0, -2.0])
