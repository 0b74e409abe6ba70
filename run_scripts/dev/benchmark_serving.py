"""Measures requests to an exported model, beside the same weights in other runtimes.

    python run_scripts/benchmark.py serving --spm_model_file=english.model \
        --albert_config_file=configs/albert_base.json

The model has random weights. Single requests are timed in turn in one process; then
clients send texts at the same time. `serving_models.py` has the model,
`serving_peers.py` the other runtimes, `serving_requests.py` the texts and
`serving_load.py` the clients.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from dev import serving_load, serving_requests
from dev.serving_contestant import PEERS, Contestant
from flags import common_flags, data_flags, performance_flags

FLAGS = flags.FLAGS

_LONG_ROW = 128
_MANY_ROWS = (16, 62)
_ONE_BY_ONE = "one by one"
# Requests of one row are timed so many times as often as those of 16.
_FEWER = 5
# Distinct texts that clients send.
_TEXTS = 64
# Seconds in which threads of one runtime stop waiting for work, before another's turn.
_SETTLE = 0.005
# Name of a contestant -> a number.
Row = dict[str, float]


def define_flags() -> None:
    """Defines the flags of the model, the requests and the clients."""
    common_flags.define_config_file_flag()
    common_flags.define_config_override_flag()
    common_flags.define_tokenizer_flags()
    common_flags.define_precision_flag()
    common_flags.define_random_seed_flag("Seed of texts, ids and pauses.")
    flags.DEFINE_integer(
        "tokens", 20, "Tokens of the shorter row, special ones included.", lower_bound=3
    )
    data_flags.define_repeats_flag(
        50, "Times that a request of one row is timed; others: a fifth."
    )
    flags.DEFINE_integer(
        "threads", 0, "Threads of every runtime. 0: as many as cores.", lower_bound=0
    )
    performance_flags.define_peers_flag(
        PEERS, "Runtimes that are measured beside TensorFlow."
    )
    flags.DEFINE_list(
        "clients", ["1", "4", "16"], "Clients that send at a time. Empty: none."
    )
    flags.DEFINE_integer(
        "requests",
        400,
        "Requests of all clients, for each row of the table. 0: none.",
        lower_bound=0,
    )
    flags.DEFINE_float(
        "load",
        0.6,
        "Requests that paced clients send, as a share of the most that a runtime can "
        "answer.",
        lower_bound=0.01,
        upper_bound=1.0,
    )


def main() -> None:
    """Prints tables and a line of JSON."""
    clients = _check_flags()
    config = AlbertConfig.from_json(FLAGS.albert_config_file)
    config = config.override(FLAGS.config_override)
    longest = max(_LONG_ROW, FLAGS.tokens)
    if config.max_position_embeddings < longest:
        raise flags.Error(
            f"Requests have up to {longest} tokens, the model reads "
            f"{config.max_position_embeddings}: name another --albert_config_file."
        )
    tokenizer = common_flags.make_tokenizer()
    if tokenizer.vocab_size > config.vocab_size:
        raise flags.Error(
            f"The vocabulary has {tokenizer.vocab_size} tokens, the model's vocab_size "
            f"is {config.vocab_size}: pass --config_override=vocab_size="
            f"{tokenizer.vocab_size}."
        )
    with tempfile.TemporaryDirectory() as folder:
        report = _measure(Path(folder), config, tokenizer, clients)
    print(json.dumps(report))


def _check_flags() -> list[int]:
    """Returns the numbers of clients."""
    if FLAGS.precision == "float16":
        raise flags.Error(
            "Requests are measured on a CPU, and float16 is for GPUs: pass "
            "--precision=float32 or bfloat16."
        )
    performance_flags.check_list("peers", PEERS)
    if not all(number.isdecimal() and int(number) for number in FLAGS.clients):
        raise flags.Error(
            "--clients are numbers of clients, such as 1,4,16. Received "
            f"{','.join(FLAGS.clients)}."
        )
    return [int(number) for number in FLAGS.clients]


def _measure(
    folder: Path, config: AlbertConfig, tokenizer: AlbertTokenizer, clients: list[int]
) -> dict[str, Any]:
    """Measures and prints everything; returns it in JSON values."""
    import tensorflow as tf

    from dev import serving_models, serving_peers

    if FLAGS.threads:
        tf.config.threading.set_intra_op_parallelism_threads(FLAGS.threads)
        tf.config.threading.set_inter_op_parallelism_threads(FLAGS.threads)
    threads = FLAGS.threads or os.cpu_count() or 1
    exported = serving_models.write_model(
        folder / "model", config, tokenizer, FLAGS.precision
    )
    ours = serving_models.SavedModel(exported, folder / "served")
    lengths = (FLAGS.tokens, _LONG_ROW)
    source = serving_peers.Source(exported, folder, threads, lengths)
    peers, missing = serving_peers.make_peers(source, FLAGS.peers)
    for name, reason in missing.items():
        print(f"Without {name}: {reason}.", flush=True)
    contestants = [ours.contestant, *peers]
    rng = np.random.default_rng(FLAGS.random_seed)
    requests = _requests(tokenizer, rng)
    differences = _differences(contestants, requests)
    single = _time_single(contestants, requests)
    print(
        "\nMilliseconds, and ratio to the SavedModel's time: "
        f"{FLAGS.precision}, {threads} threads"
    )
    print(_single_table(single, differences), flush=True)
    batch = requests[f"1 x {FLAGS.tokens}"]
    text = serving_requests.text_of(tokenizer, FLAGS.tokens, rng)
    parts = time_in_turns(
        {
            "signature ids": ours.contestant.request(batch),
            "signature text": ours.contestant.request([text]),
            **serving_models.parts(exported, batch),
        },
        FLAGS.repeats,
    )
    print(f"\nMilliseconds of a row of {FLAGS.tokens} tokens")
    for name, value in parts.items():
        print(f"{name:40} {value:8.2f}")
    server = []
    if FLAGS.requests and clients:
        forms = {each.name: each.texts for each in _fastest(contestants, single)}
        forms["SavedModel, batched"] = ours.batched()
        texts = serving_requests.even_texts(tokenizer, _TEXTS, rng)
        server = _serve(forms, texts, clients)
    return {
        "precision": FLAGS.precision,
        "threads": threads,
        "missing": missing,
        "largest_differences": differences,
        "single_ms": single,
        "parts_ms": parts,
        "server": server,
    }


# -- single requests


def _requests(
    tokenizer: AlbertTokenizer, rng: np.random.Generator
) -> dict[str, serving_requests.Batch | list[str]]:
    """Name -> a batch of ids, or texts."""
    shapes = ((1, FLAGS.tokens), (1, _LONG_ROW), _MANY_ROWS)
    batches = {
        f"{rows} x {length}": serving_requests.random_ids(tokenizer, rows, length, rng)
        for rows, length in shapes
    }
    return {**batches, "16 texts": serving_requests.mixed_texts(tokenizer, rng)}


def _differences(contestants: Sequence[Contestant], requests: Mapping) -> Row:
    """Largest difference of a probability from the first contestant's."""
    largest = {each.name: 0.0 for each in contestants}
    for content in requests.values():
        sent = {each.name: each.request(content) for each in contestants}
        answers = {name: ask() for name, ask in sent.items() if ask}
        expected = answers[contestants[0].name]
        for name, answer in answers.items():
            difference = float(np.abs(answer - expected).max())
            largest[name] = max(largest[name], difference)
    return largest


def _time_single(
    contestants: Sequence[Contestant], requests: Mapping
) -> dict[str, Row]:
    """Request -> contestant -> median milliseconds."""
    medians = {}
    for name, content in requests.items():
        is_one_row = name.startswith("1 x ")
        repeats = FLAGS.repeats if is_one_row else -(-FLAGS.repeats // _FEWER)
        sent = {each.name: each.request(content) for each in contestants}
        todo = {key: ask for key, ask in sent.items() if ask}
        medians[name] = time_in_turns(todo, repeats)
        if isinstance(content, list):
            todo = {
                each.name: _one_by_one(each.texts, content)
                for each in contestants
                if each.texts
            }
            medians[_ONE_BY_ONE] = time_in_turns(todo, repeats)
    return medians


def _one_by_one(
    answer: serving_load.Answer, texts: Sequence[str]
) -> Callable[[], list[np.ndarray]]:
    return lambda: [answer([text]) for text in texts]


def time_in_turns(todo: Mapping[str, Callable[[], Any]], repeats: int) -> Row:
    """Name -> median milliseconds of a function, after two calls."""
    times: dict[str, list[float]] = {name: [] for name in todo}
    for _ in range(2):
        for function in todo.values():
            function()
    for _ in range(repeats):
        for name, function in todo.items():
            time.sleep(_SETTLE)
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: 1e3 * statistics.median(values) for name, values in times.items()}


def _single_table(single: Mapping[str, Row], differences: Row) -> str:
    """A line a contestant, a column a request; the first contestant is ours."""
    lines = [
        f"{'':40}" + "".join(f"{name:>18}" for name in single) + f"{'differs':>10}"
    ]
    ours = next(iter(differences))
    for name, difference in differences.items():
        cells = [
            f"{row[name]:11.1f} {row[name] / row[ours]:5.2f}x" if name in row else ""
            for row in single.values()
        ]
        lines.append(f"{name:40}" + "".join(f"{cell:>18}" for cell in cells))
        lines[-1] += f"{difference:10.1e}"
    return "\n".join(lines)


# -- a server's view


def _fastest(
    contestants: Sequence[Contestant], single: Mapping[str, Row]
) -> list[Contestant]:
    """Takes the fastest form of each library that reads texts."""
    times = single[_ONE_BY_ONE]
    best: dict[str, Contestant] = {}
    for each in contestants:
        known = best.get(each.library)
        if each.texts and (not known or times[each.name] < times[known.name]):
            best[each.library] = each
    return [*best.values()]


def _serve(
    forms: Mapping[str, serving_load.Answer], texts: Sequence[str], clients: list[int]
) -> list[dict[str, Any]]:
    """A row for each number of clients and each form, printed as it is measured."""
    print(f"\nClients that send texts of 4 to 120 tokens, paced to {FLAGS.load:.0%}")
    titles = ("p50 ms", "p99 ms", "p99 / p50", "load reached", "most rows/s")
    print(f"{'clients':>7} {'':40}" + "".join(f"{title:>14}" for title in titles))
    alone = {
        name: serving_load.send_alone(answer, texts) for name, answer in forms.items()
    }
    rows = []
    for number in clients:
        load = serving_load.Load(number, FLAGS.requests, FLAGS.load, FLAGS.random_seed)
        for name, answer in forms.items():
            row = load.measure(answer, texts, alone[name])
            print(
                f"{number:7} {name:40}{row['p50_ms']:14.1f}{row['p99_ms']:14.1f}"
                f"{row['p99 / p50']:14.2f}{row['load']:14.0%}"
                f"{row['rows_per_second']:14.1f}",
                flush=True,
            )
            rows.append({"clients": number, "form": name, **row})
    worst = max(row["largest_difference"] for row in rows)
    print(f"Answers differ by at most {worst:.1e} from those to the same texts alone.")
    return rows
