"""Calls for the workers of data preparation."""

import os
import signal


def die(shared):
    """Kills the worker that carries it out."""
    os.kill(os.getpid(), signal.SIGKILL)


def run_all(workers, calls):
    """Note of a call -> result, of calls carried out by an executor."""
    results = {}
    waiting = iter(calls)
    workers.run(
        lambda: next(waiting, None),
        lambda call, result: results.update({call.note: result}),
    )
    return results
