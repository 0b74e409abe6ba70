"""`Contestant`: a form of a model that `benchmark.py serving` sends requests to.

Letters in shapes: B rows, L labels.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from albert_tf.text.tokenizer import AlbertTokenizer
from dev.serving_requests import Batch, pack

# Runtimes beside TensorFlow, as the flag names them.
PEERS = ("tflite", "onnxruntime", "openvino", "torch")


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A form of the model that answers requests.

    Attributes:
      library: what computes it; several forms may have the same.
      form: which form it is; empty: the library has one.
      ids: a batch -> probabilities, float32 [B, L].
      texts: texts -> their probabilities; None: it reads batches only.
      lengths: numbers of tokens of the only batches that it reads, of one row; None: it
        reads all batches.
    """

    library: str
    form: str
    ids: Callable[[Batch], np.ndarray]
    texts: Callable[[Sequence[str]], np.ndarray] | None = None
    lengths: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.library}, {self.form}" if self.form else self.library

    def request(self, content: Batch | list[str]) -> Callable[[], np.ndarray] | None:
        """Returns a function that sends a batch or texts; None: it does not read it."""
        if isinstance(content, list):
            texts = self.texts
            return None if texts is None else lambda: texts(content)
        rows, length = content["input_ids"].shape
        if self.lengths is None or (rows == 1 and length in self.lengths):
            return lambda: self.ids(content)
        return None


def reads_texts(
    library: str,
    form: str,
    ids: Callable[[Batch], np.ndarray],
    tokenizer: AlbertTokenizer,
) -> Contestant:
    """Makes a contestant that reads texts through the tokenizer in Python."""
    return Contestant(library, form, ids, lambda texts: ids(pack(tokenizer, texts)))
