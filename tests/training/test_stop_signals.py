"""Signals are remembered, a second Ctrl-C is not."""

import signal

import pytest

from albert_tf.training.stop_signals import StopSignals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_remembered_and_handlers_come_back(number):
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    with StopSignals() as signals:
        assert not signals.received and not signals.interrupted
        signal.raise_signal(number)
        assert signals.received and signals.interrupted == (number == signal.SIGINT)
    assert signals.received
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_second_interrupt_interrupts(capfd):
    with pytest.raises(KeyboardInterrupt), StopSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert "Ctrl-C again" in capfd.readouterr().err
        signal.raise_signal(signal.SIGINT)
    assert signals.interrupted
