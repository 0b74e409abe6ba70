"""Measures the time of a request to an exported model, and of its matrix products.

    python run_scripts/benchmark.py serving --spm_model_file=english.model \
        --albert_config_file=configs/albert_base.json

The model has random weights. All are timed in turn in one process: the signatures `ids`
and `text` for one text, and for 16 of mixed lengths; the model called eagerly and in a
`tf.function`; and the encoder's products of matrices alone.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from flags import common_flags, data_flags

FLAGS = flags.FLAGS

_WORDS = "the house by the river was sold to a man from the north who had a dog and one"
_MIXED_LENGTHS = (4, 60, 9, 24, 120, 7, 33, 15, 80, 12, 5, 48, 20, 28, 10, 100)


def define_flags() -> None:
    """Defines the flags of the model and of the repetitions."""
    common_flags.define_config_file_flag()
    common_flags.define_config_override_flag()
    common_flags.define_tokenizer_flags()
    flags.DEFINE_integer("tokens", 20, "Tokens of the one text, special ones included.")
    data_flags.define_repeats_flag(50, "Times that each request is timed.")
    common_flags.define_precision_flag()


def main() -> None:
    """Prints a table and a line of JSON."""
    import tensorflow as tf

    from albert_tf.checkpoints.load import weights_checkpoint
    from albert_tf.model.heads import ClassificationModel
    from albert_tf.serving import export
    from albert_tf.task_config import Classification

    config = AlbertConfig.from_json(FLAGS.albert_config_file)
    config = config.override(FLAGS.config_override)
    tokenizer = common_flags.make_tokenizer()
    task_config = Classification(
        "custom", ["no", "yes"], max_seq_length=config.max_position_embeddings
    )
    model = ClassificationModel(config, num_outputs=2, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        prefix = f"{folder}/model.ckpt-1"
        weights_checkpoint(model).write(prefix)
        exported = export.ExportedModel(
            config, prefix, task_config, tokenizer, precision=FLAGS.precision
        )
        version, _ = export.export_model(exported, f"{folder}/served")
        signatures = tf.saved_model.load(str(version)).signatures
        one = _text_of(tokenizer, FLAGS.tokens - 2)
        many = [_text_of(tokenizer, length) for length in _MIXED_LENGTHS]
        graph = tf.function(model)
        batch = _ids(tokenizer, [one])
        todo = {
            "text": lambda: signatures["text"](text=tf.constant([one])),
            "ids": lambda: signatures["ids"](**batch),
            "products": _products(config, FLAGS.tokens, FLAGS.precision),
            "model in a tf.function": lambda: graph(batch),
            "model called eagerly": lambda: model(batch),
            "text, 16 of 4 to 120": lambda: signatures["text"](text=tf.constant(many)),
            "text, 16 one by one": lambda: [
                signatures["text"](text=tf.constant([each])) for each in many
            ],
        }
        report = _time_in_turns(todo)
    report["text / ids"] = report["text"] / report["ids"]
    report["ids / products"] = report["ids"] / report["products"]
    for name, value in report.items():
        unit = "" if "/" in name else " ms"
        print(f"{name:26} {value:8.2f}{unit}")
    print(json.dumps(report))


def _text_of(tokenizer: AlbertTokenizer, tokens: int) -> str:
    """A text of so many tokens."""
    words = _WORDS.split()
    text, count = [], 0
    while len(tokenizer.encode(" ".join(text))) < tokens:
        text.append(words[count % len(words)])
        count += 1
    return " ".join(text)


def _ids(tokenizer: AlbertTokenizer, texts: Sequence[str]) -> dict[str, Any]:
    """A batch of texts, int32 [B, S]."""
    import tensorflow as tf

    rows = [[tokenizer.cls_id, *tokenizer.encode(t), tokenizer.sep_id] for t in texts]
    ids = tf.ragged.constant(rows, tf.int32).to_tensor()
    return {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
    }


def _products(config: AlbertConfig, tokens: int, precision: str) -> Callable[[], Any]:
    """A function that computes only the encoder's products of one row, in sequence."""
    import tensorflow as tf

    def matrix(*shape):
        values = tf.random.stateless_normal(shape, [1, 2], stddev=0.02)
        return tf.Variable(tf.cast(values, precision))

    hidden, inner = config.hidden_size, config.intermediate_size
    heads = config.num_attention_heads
    square, up, down = (
        matrix(hidden, hidden),
        matrix(hidden, inner),
        matrix(inner, hidden),
    )
    row = matrix(tokens, hidden)

    @tf.function
    def products():
        values = tf.identity(row)
        for _ in range(config.num_hidden_layers * config.inner_group_num):
            query, key, value = (tf.matmul(values, square) for _ in range(3))
            shape = [heads, tokens, hidden // heads]
            query, key, value = (tf.reshape(v, shape) for v in (query, key, value))
            pairs = tf.matmul(query, key, transpose_b=True)
            values = tf.reshape(tf.matmul(pairs, value), [tokens, hidden])
            values = tf.matmul(values, square)
            values = tf.matmul(tf.matmul(values, up), down)
        return values

    return products


def _time_in_turns(todo: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Name -> median milliseconds."""
    times = {name: [] for name in todo}
    for _ in range(3):
        for function in todo.values():
            function()
    for _ in range(FLAGS.repeats):
        for name, function in todo.items():
            began = time.perf_counter()
            result = function()
            _wait(result)
            times[name].append(time.perf_counter() - began)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def _wait(result: Any) -> None:
    """Returns once the tensors are computed."""
    import tensorflow as tf

    for tensor in tf.nest.flatten(result):
        np.asarray(tensor[0] if tensor.shape.rank else tensor)
