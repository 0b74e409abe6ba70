"""A toy language to fine-tune on: its vocabulary, texts, rows and jobs."""

from pathlib import Path

import numpy as np

from albert_tf.checkpoints import model_dir
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.records.features import classifier_features
from albert_tf.records.sidecar import RecordSet, read_record_set
from albert_tf.records.writer import write_records
from albert_tf.task_config import Classification
from albert_tf.tasks.create import create_task
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.job import Job
from data_prep.fine_tuning import classification as fine_tuning_classification
from data_prep.fine_tuning import row_labels, tables
from helpers.tiny import tiny_config

WORDS = [f"word{letter}" for letter in "abcdefghijklmnopqrst"]
GOOD, BAD = "lovely", "awful"
MAX_SEQ_LENGTH = 17
TASK_CONFIG = Classification("toy", ["bad", "good"])


def write_vocabulary(folder: Path) -> Path:
    """A WordPiece vocabulary of whole words."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", GOOD, BAD, *WORDS]
    path = folder / "vocab.txt"
    path.write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return path


def texts(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts of many lengths and their labels, `good` or `bad`: each has words of its
    own, and one that says it."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(count):
        own, word, label = ((0, GOOD, "good"), (1, BAD, "bad"))[place % 2]
        words = rng.choice(WORDS[own::2], rng.integers(1, 12)).tolist()
        words.insert(rng.integers(len(words) + 1), word)
        found.append((" ".join(words), label))
    return found


def write_table(path: Path, count: int, seed: int) -> Path:
    """A .tsv with columns `text` and `label`."""
    lines = ["text\tlabel", *("\t".join(pair) for pair in texts(count, seed))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_rows(path: Path, vocabulary: Path, count: int, seed: int) -> RecordSet:
    """The rows of such texts."""
    tokenizer = AlbertTokenizer(vocab_file=vocabulary)
    pairs = texts(count, seed)
    examples = [tables.Example("", text, None, label, "") for text, label in pairs]
    rows = fine_tuning_classification.classification_rows(
        examples,
        row_labels.label_values(examples, ["bad", "good"]),
        tokenizer,
        MAX_SEQ_LENGTH,
        {},
    )
    metadata = {
        **tokenizer.metadata(),
        "max_seq_length": MAX_SEQ_LENGTH,
        "content_sha256": f"{count} {seed}",
    }
    write_records(path, rows, classifier_features("int64"), metadata)
    return read_record_set([str(path)], {})


def config(**changes):
    """The model of the toy language; large weights let so small a one learn fast."""
    known = {"num_hidden_layers": 2, "initializer_range": 0.2}
    return tiny_config(vocab_size=7 + len(WORDS), **(known | changes))


def make_job(output_dir, vocabulary, train_rows=None, dev_rows=None, **changes):
    """A job that learns the language; `changes` are of its settings or of itself."""
    optimizer = {"learning_rate": 0.005, "num_train_steps": 60, "num_warmup_steps": 6}
    train = {
        "train_batch_size": 8,
        "eval_batch_size": 6,
        "iterations_per_loop": 20,
        "save_checkpoints_steps": 20,
        "eval_steps": 20,
        "early_stopping": 0,
        "length_buckets": True,
        "hard_examples": 0.0,
        "gradient_accumulation_steps": 1,
        "jit_compile": False,
        "precision": "float32",
        "random_seed": 11,
    }
    optimizer |= {k: changes.pop(k) for k in [*changes] if k in optimizer}
    train |= {k: changes.pop(k) for k in [*changes] if k in train}
    job = {
        "task": create_task(TASK_CONFIG, dropout=0.1),
        "model_config": config(),
        "files": model_dir.model_files(vocabulary, TASK_CONFIG.to_dict()),
    }
    return Job(
        optimizer_config=OptimizerConfig("adamw", **optimizer),
        train_config=TrainConfig(str(output_dir), **train),
        train_rows=train_rows,
        eval_rows=dev_rows,
        **(job | changes),
    )
