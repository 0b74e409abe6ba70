"""Clients that send texts at the same time, and what they wait.

A client sends one text, waits for the answer, pauses, and sends the next, as a program
does that calls a server. Two loads are put on a model:

- saturating: no pauses. It gives the most rows a second. The times of answers then say
  only how many clients wait.
- paced: pauses are exponential, so that requests meet at random, and so long that a
  given share of the saturated rate is sent. It gives the times of answers.

Letters in shapes: R requests, L outputs of a row.
"""

import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

# Texts -> their rows of outputs, [texts, L].
Answer = Callable[[Sequence[str]], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Answers to clients, in the order of the requests.

    Attributes:
      sent: when each request was sent, seconds from the start, float64 [R].
      seconds: from a request to its answer, float64 [R].
      answers: the outputs for its text, float32 [R, L].
    """

    sent: np.ndarray
    seconds: np.ndarray
    answers: np.ndarray

    @property
    def rate(self) -> float:
        """Requests that were answered in a second."""
        return len(self.sent) / float((self.sent + self.seconds).max())


def send(
    answer: Answer,
    texts: Sequence[str],
    clients: int,
    pause: float,
    rng: np.random.Generator,
) -> Outcome:
    """Sends each text once, by whichever client is next to send.

    Args:
      answer: the model.
      texts: R texts.
      clients: number of clients, each in a thread of its own.
      pause: mean seconds that a client pauses before each request.
      rng: draws the pauses.
    Raises:
      Exception: of `answer`, after the other clients have ended.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(texts)):
        waiting.put(place)
    start = threading.Barrier(clients)
    results: list[Any] = [None] * len(texts)

    def client(own_rng):
        start.wait()
        began = time.perf_counter()
        while True:
            if pause:
                time.sleep(own_rng.exponential(pause))
            try:
                place = waiting.get_nowait()
            except queue.Empty:
                return
            sent = time.perf_counter()
            rows = answer([texts[place]])
            results[place] = (sent - began, time.perf_counter() - sent, rows[0])

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, rng.spawn(clients)))
    return Outcome(*map(np.array, zip(*results, strict=True)))


@dataclasses.dataclass(frozen=True)
class Alone:
    """Answers to one client that sends all texts, and their rate.

    Attributes:
      answers: the outputs for each text, float32 [texts, L].
      seconds: mean time of an answer.
    """

    answers: np.ndarray
    seconds: float


def send_alone(answer: Answer, texts: Sequence[str]) -> Alone:
    """Sends all texts one after the other, twice: the first time warms the model up."""
    rng = np.random.default_rng(0)  # not used without pauses
    first = send(answer, texts, 1, 0.0, rng)
    second = send(answer, texts, 1, 0.0, rng)
    return Alone(first.answers, 1 / second.rate)


@dataclasses.dataclass(frozen=True)
class Load:
    """Both loads.

    Attributes:
      clients: number of clients.
      requests: of all clients, under each load.
      share: of the saturated rate, that the paced load sends.
      seed: of texts and pauses.
    """

    clients: int
    requests: int
    share: float
    seed: int

    def measure(
        self, answer: Answer, texts: Sequence[str], alone: Alone
    ) -> dict[str, float]:
        """Puts both loads on a model.

        Args:
          answer: the model.
          texts: that requests are drawn from.
          alone: the model's answers to them.
        Returns:
          `p50_ms`, `p99_ms` and `p99 / p50` under the paced load, `load`, the share
          that was reached, `rows_per_second` under the saturating load, and
          `largest_difference` of an answer from that to the same text alone.
        """
        rng = np.random.default_rng(self.seed)
        drawn = rng.integers(len(texts), size=self.requests)
        chosen = [texts[place] for place in drawn]
        saturated = send(answer, chosen, self.clients, 0.0, rng)
        # A client sends once in a pause and the time of an answer, which is at least
        # that of a request alone.
        pause = max(0.0, self.clients / (self.share * saturated.rate) - alone.seconds)
        paced = send(answer, chosen, self.clients, pause, rng)
        answers = np.stack([saturated.answers, paced.answers])
        return {
            **percentiles(paced.seconds),
            "load": paced.rate / saturated.rate,
            "rows_per_second": saturated.rate,
            "largest_difference": float(abs(answers - alone.answers[drawn]).max()),
        }


def percentiles(seconds: np.ndarray) -> dict[str, float]:
    """Returns `p50_ms`, `p99_ms` and their ratio."""
    middle, high = 1e3 * np.percentile(seconds, [50, 99])
    return {
        "p50_ms": float(middle),
        "p99_ms": float(high),
        "p99 / p50": float(high / middle),
    }
