"""Clients get the answers to their own requests, each once; percentiles are right."""

import threading
import time

import numpy as np
import pytest

from dev import serving_load

TEXTS = [str(number) for number in range(53)]


class Model:
    """Answers a text with its number and its square; remembers what it was asked."""

    def __init__(self, seconds=0.0):
        self.asked, self.seconds = [], seconds
        self.threads = set()

    def __call__(self, texts):
        self.asked += texts
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds * (int(texts[0]) % 3))
        numbers = np.array([int(text) for text in texts], np.float32)
        return np.stack([numbers, numbers**2], axis=1)


@pytest.mark.parametrize("pause", [0.0, 0.0004])
def test_every_request_is_sent_once_and_gets_its_own_answer(pause):
    model = Model(seconds=0.0003)
    outcome = serving_load.send(model, TEXTS, 7, pause, np.random.default_rng(3))
    assert sorted(model.asked) == sorted(TEXTS)
    assert 1 < len(model.threads) <= 7
    numbers = np.arange(53)
    np.testing.assert_array_equal(
        outcome.answers, np.stack([numbers, numbers**2], axis=1)
    )
    assert outcome.sent.shape == outcome.seconds.shape == (53,)
    assert (outcome.seconds >= 0.0003 * (numbers % 3)).all()
    last = (outcome.sent + outcome.seconds).max()
    assert outcome.rate == pytest.approx(53 / last)


def test_an_error_of_the_model_is_raised():
    def fail(texts):
        if texts == ["17"]:
            raise ValueError("no answer to 17")
        return np.zeros([1, 2])

    with pytest.raises(ValueError, match="no answer to 17"):
        serving_load.send(fail, TEXTS, 3, 0.0, np.random.default_rng(3))


def test_pauses_leave_the_asked_share_of_the_saturated_rate(monkeypatch):
    """In a model of time without threads: the sum of a pause and an answer."""
    pauses = []

    def send(answer, texts, clients, pause, rng):
        pauses.append(pause)
        seconds = 0.02
        period = (pause + seconds) / clients
        places = np.arange(len(texts))
        sent = (places + 1) * period - seconds
        return serving_load.Outcome(sent, np.full(len(texts), seconds), answer(texts))

    monkeypatch.setattr(serving_load, "send", send)
    alone = serving_load.send_alone(Model(), TEXTS)
    assert alone.seconds == pytest.approx(0.02)
    load = serving_load.Load(clients=4, requests=31, share=0.6, seed=5)
    measured = load.measure(Model(), TEXTS, alone)
    assert measured["rows_per_second"] == pytest.approx(4 / 0.02)
    assert measured["load"] == pytest.approx(0.6)
    # 4 clients: 0.0333 s a period, of which an answer takes 0.02.
    assert pauses == pytest.approx([0, 0, 0, 0.02 / 0.6 - 0.02])
    assert measured["largest_difference"] == 0


def test_an_answer_to_another_text_is_noticed():
    alone = serving_load.send_alone(Model(), TEXTS)
    swapped = serving_load.Alone(alone.answers[::-1], alone.seconds)
    load = serving_load.Load(clients=2, requests=19, share=1.0, seed=5)
    assert load.measure(Model(), TEXTS, swapped)["largest_difference"] > 1


def test_percentiles_of_known_numbers():
    seconds = np.random.default_rng(0).permutation(np.arange(1, 102)) / 1000
    assert serving_load.percentiles(seconds) == pytest.approx(
        {"p50_ms": 51, "p99_ms": 100, "p99 / p50": 100 / 51}
    )
