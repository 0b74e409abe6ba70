"""Commands that the previous version ran and every later one must be able to run.

Their paths start from a folder that holds `inputs/`, `models/` and `stopped/`; each
writes to `out/NAME`.
"""

SENTENCEPIECE = [
    "--spm_model_file=inputs/spiece.model",
    "--albert_config_file=inputs/sentencepiece.json",
]
WORDPIECE = [
    "--vocab_file=inputs/vocab.txt",
    "--albert_config_file=inputs/wordpiece.json",
]
TRAINING = [
    "--from_scratch",
    "--train_batch_size=4",
    "--eval_batch_size=3",
    "--learning_rate=0.01",
    "--num_warmup_steps=2",
    "--iterations_per_loop=4",
    "--save_checkpoints_steps=4",
]
_NO_TRAINING = "--nodo_train"

# Pretraining records of every objective and of both kinds of vocabulary.
_TEXT = [
    "create_pretraining_data.py",
    "--input_file=inputs/text.txt",
    "--max_seq_length=32",
    "--max_predictions_per_seq=5",
    "--dupe_factor=2",
    "--num_workers=1",
]
_SPIECE, _VOCAB = SENTENCEPIECE[0], WORDPIECE[0]
RECORDS = {
    "records_sop": [*_TEXT, _SPIECE],
    "records_nsp": [*_TEXT, _SPIECE, "--pair_objective=nsp"],
    "records_none": [*_TEXT, _SPIECE, "--pair_objective=none", "--nostrip_accents"],
    "records_wordpiece": [*_TEXT, _VOCAB, "--input_format=raw", "--ngram=2"],
}
for _name, _command in RECORDS.items():
    _command.append(f"--output_file=out/{_name}/rows.tfrecord")

PRETRAINING = [
    "run_pretraining.py",
    "--input_file=inputs/records/rows.tfrecord",
    SENTENCEPIECE[1],
    "--max_seq_length=32",
    "--max_predictions_per_seq=5",
    "--train_batch_size=4",
    "--eval_batch_size=3",
    "--num_train_steps=6",
    "--num_warmup_steps=2",
    "--iterations_per_loop=3",
    "--save_checkpoints_steps=3",
]
TABLE = [
    "run_classifier.py",
    "--task_name=custom",
    "--train_file=inputs/table/train.tsv",
    "--dev_file=inputs/table/dev.tsv",
    "--do_eval",
    "--max_seq_length=20",
    *WORDPIECE,
    *TRAINING,
]


def glue(name: str, vocabulary: list[str]) -> list[str]:
    """Trains a task of GLUE."""
    return [
        "run_classifier.py",
        f"--task_name={name}",
        "--data_dir=inputs/glue",
        "--do_eval",
        "--max_seq_length=40",
        *vocabulary,
        *TRAINING,
    ]


def squad(version: str, vocabulary: list[str], *flags: str) -> list[str]:
    """Trains on SQuAD v1 or v2."""
    return [
        "run_squad.py",
        f"--train_file=inputs/squad/{version}-train.json",
        "--max_seq_length=64",
        "--doc_stride=20",
        "--max_query_length=24",
        *flags,
        *vocabulary,
        *TRAINING,
    ]


RACE = [
    "run_race.py",
    "--data_dir=inputs/RACE",
    "--do_eval",
    "--max_seq_length=48",
    "--max_qa_length=20",
    *SENTENCEPIECE,
    *TRAINING,
]
TRAIN = {
    "pretraining": [*PRETRAINING, "--keep_checkpoint_max=1"],
    "table": [*TABLE, "--num_train_steps=12", "--num_runs=2"],
    "rte": [*glue("rte", SENTENCEPIECE), "--num_train_steps=8"],
    "cola": [*glue("cola", WORDPIECE), "--num_train_steps=8"],
    "sts_b": [*glue("sts-b", SENTENCEPIECE), "--num_train_steps=8"],
    "race": [*RACE, "--num_train_steps=8"],
    "squad_v1": squad(
        "v1",
        WORDPIECE,
        "--num_train_steps=32",
        "--predict_file=inputs/squad/v1-dev.json",
        "--do_eval",
    ),
    "squad_v2": squad(
        "v2",
        SENTENCEPIECE,
        "--num_train_steps=32",
        "--predict_file=inputs/squad/v2-dev.json",
        "--do_eval",
        "--tune_threshold",
    ),
}

# Runs that stop after their first loop, and go on when they are started again.
RESUMED = {
    "resumed_pretraining": PRETRAINING,
    "resumed_table": [*TABLE, "--num_train_steps=8"],
    "resumed_squad_v2": squad("v2", SENTENCEPIECE, "--num_train_steps=8"),
}
STOP = "--max_train_hours=1e-9"


def _predict(script: str, model: str, *flags: str) -> list[str]:
    return [script, _NO_TRAINING, f"--init_checkpoint=models/{model}", *flags]


_GLUE = "--data_dir=inputs/glue"
PREDICTED = {
    "evaluated_pretraining": [
        *_predict("run_pretraining.py", "pretraining", "--do_eval", "--eval_steps=0"),
        "--eval_input_file=inputs/records/rows.tfrecord",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
    ],
    "predicted_table": _predict(
        "run_classifier.py",
        "table",
        "--dev_file=inputs/table/dev.tsv",
        "--predict_file=inputs/table/new.csv",
        "--do_eval",
        "--do_predict",
    ),
    "predicted_rte": _predict("run_classifier.py", "rte", _GLUE, "--do_eval"),
    "predicted_cola": _predict("run_classifier.py", "cola", _GLUE, "--do_predict"),
    "predicted_sts_b": _predict(
        "run_classifier.py", "sts_b", _GLUE, "--do_eval", "--do_predict"
    ),
    "predicted_race": _predict(
        "run_race.py", "race", "--data_dir=inputs/RACE", "--do_eval"
    ),
    "predicted_quiz": _predict(
        "run_race.py",
        "race",
        "--predict_file=inputs/quiz/test.jsonl",
        "--input_format=jsonl",
        "--do_predict",
    ),
    "predicted_squad_v1": _predict(
        "run_squad.py",
        "squad_v1",
        "--predict_file=inputs/squad/v1-dev.json",
        "--do_eval",
    ),
    "predicted_squad_v2": _predict(
        "run_squad.py",
        "squad_v2",
        "--predict_file=inputs/squad/v2-dev.json",
        "--do_eval",
    ),
}
for _commands in (TRAIN, RESUMED, PREDICTED):
    for _name, _command in _commands.items():
        _commands[_name] = [*_command, f"--output_dir=out/{_name}"]

ASK = [
    "--context=inputs/squad/context.txt",
    "--question=Who did ran to the hill in May?",
    "--n_best=3",
]
ASKED = {
    f"asked_{name}": ["ask.py", f"--model=models/{name}", *ASK]
    for name in ("squad_v1", "squad_v2")
}

# Exported model -> whether it takes text, which is slow to export.
_WITH_TEXT = {
    "pretraining": False,
    "table": True,
    "sts_b": False,
    "race": False,
    "squad_v1": False,
    "squad_v2": False,
}
EXPORTED = {
    f"exported_{name}": [
        "export_saved_model.py",
        f"--model=models/{name}",
        f"--export_dir=out/exported_{name}",
        f"--{'' if text else 'no'}text_signature",
    ]
    for name, text in _WITH_TEXT.items()
}


def _convert(model: str, layout: str, *flags: str) -> list[str]:
    target = f"--to=out/converted_{model}_{layout}"
    return [
        "convert_checkpoint.py",
        f"--from=models/{model}",
        target,
        f"--layout={layout}",
        *flags,
    ]


_CONVERSIONS = [
    ("pretraining", "own"),
    ("pretraining", "tensorflow1"),
    ("pretraining", "hugging_face"),
    ("pretraining", "model_garden", "--nostrict"),
    ("table", "hugging_face"),
    ("rte", "own"),
    ("sts_b", "tensorflow1"),
    ("race", "hugging_face", "--multiple_choice"),
    ("squad_v1", "hugging_face"),
    ("squad_v2", "own"),
]
CONVERTED = {
    f"converted_{model}_{layout}": _convert(model, layout, *flags)
    for model, layout, *flags in _CONVERSIONS
}
