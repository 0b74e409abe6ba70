"""Measures attention in a window beside full attention, forward and backward.

    python run_scripts/benchmark.py attention --attention_window=128

Of albert_base's sizes, a row at a time: the attention of one layer, and the whole layer
with its projections. Both kinds are timed in turns.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags
from tqdm import tqdm

from albert_tf.config import AlbertConfig
from albert_tf.model import local_attention
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.local_attention import Window

FLAGS = flags.FLAGS

LENGTHS = (512, 1024, 2048, 4096)
_CONFIG = Path(__file__).resolve().parents[2] / "configs" / "albert_base.json"
_TURNS = 5
_SEED = 12345


def define_flags() -> None:
    """Defines the flags."""
    flags.DEFINE_integer(
        "attention_window",
        128,
        "Tokens on either side that a token attends to; the first one sees all.",
        lower_bound=1,
    )


def main() -> None:
    """Measures, and prints a table and JSON values."""
    config = AlbertConfig.from_json(_CONFIG)
    rows = measure(config, FLAGS.attention_window, LENGTHS, _TURNS)
    print(table(rows))
    print(json.dumps(rows))


def measure(
    config: AlbertConfig, window: int, lengths: tuple[int, ...], turns: int
) -> list[dict[str, Any]]:
    """Times both kinds of attention.

    Args:
      config: sizes of the model.
      window: tokens on either side.
      lengths: tokens of a row.
      turns: times that each is measured; the median counts.
    Returns:
      For each length `tokens`, and for "attention" and "layer" the milliseconds of
      `full_` and `window_`.
    """
    rows = []
    for length in tqdm(lengths, desc="lengths", disable=None, leave=False):
        row: dict[str, Any] = {"tokens": length, "window": window}
        for part, make in {"attention": _attention, "layer": _layer}.items():
            steps = {"full": make(config, length, None)}
            steps["window"] = make(config, length, Window(window, 1))
            for name, milliseconds in _time(steps, turns).items():
                row[f"{name}_{part}_ms"] = milliseconds
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """The table that is printed."""
    lines = [
        f"{'':>6}  {'attention, ms':>29}  {'layer, ms':>29}",
        f"{'tokens':>6}  {'full':>10}  {'window':>10}  {'ratio':>5}  "
        f"{'full':>10}  {'window':>10}  {'ratio':>5}",
    ]
    for row in rows:
        cells = [f"{row['tokens']:>6}"]
        for part in ("attention", "layer"):
            full, window = row[f"full_{part}_ms"], row[f"window_{part}_ms"]
            cells += [f"{full:10.1f}", f"{window:10.1f}", f"{full / window:5.2f}"]
        lines.append("  ".join(cells))
    return "\n".join(lines)


def _attention(
    config: AlbertConfig, length: int, window: Window | None
) -> Callable[[], Any]:
    """A function that computes attention and its gradients."""
    heads = config.num_attention_heads
    shape = (1, heads, length, config.hidden_size // heads)
    rng = np.random.default_rng(_SEED)
    query, key, value, upstream = (
        tf.constant(rng.normal(size=shape), tf.float32) for _ in range(4)
    )
    mask_logits = tf.zeros([1, 1, 1, length])

    @tf.function
    def step(*parts: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(parts)
            context = local_attention.attend(parts, mask_logits, window, tf.identity)
        return context, tape.gradient(context, parts, upstream)

    return lambda: step(query, key, value)


def _layer(
    config: AlbertConfig, length: int, window: Window | None
) -> Callable[[], Any]:
    """A function that computes a model of one layer and its gradients."""
    config = config.replace(
        vocab_size=100,
        num_hidden_layers=1,
        max_position_embeddings=length,
        attention_window=window and window.size,
        global_attention_tokens=window and window.global_tokens,
    )
    encoder = AlbertEncoder(config, seed=_SEED)
    ids = np.random.default_rng(_SEED).integers(5, 100, (1, length)).astype(np.int32)
    inputs = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
    inputs = {name: tf.constant(values) for name, values in inputs.items()}

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True, dropout_seed=tf.constant([1, 2]))
            loss = tf.reduce_sum(tf.square(outputs["sequence_output"]))
        return loss, tape.gradient(loss, encoder.trainable_variables)

    return step


def _time(steps: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Median milliseconds of each, timed in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(turns):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - began)
    return {name: 1e3 * statistics.median(each) for name, each in seconds.items()}
