"""Jobs that make pretraining records of toy documents."""

from albert_tf.files import sha256
from data_prep.corpus.tokenize import TextConfig
from data_prep.pretraining.job import PretrainingDataJob, make_pretraining_data
from data_prep.pretraining.output_files import expand_outputs
from helpers.letters import TOKENIZER


def write_text(path, documents):
    path.parent.mkdir(exist_ok=True, parents=True)
    text = "\n\n".join("\n".join(document) for document in documents)
    # A file that stays as it is keeps its time.
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(path)


def make_job(documents, config, folder, files=2, workers=1, shard_range=""):
    return PretrainingDataJob(
        input_paths=[write_text(folder / "text.txt", documents)],
        text_config=TextConfig("lines"),
        tokenizer=TOKENIZER,
        config=config,
        outputs=expand_outputs(f"{folder}/out/rows@{files}", shard_range),
        num_workers=workers,
    )


def make(*args, **options):
    """Makes records of documents; returns their paths and the report."""
    job = make_job(*args, **options)
    report = make_pretraining_data(job)
    return job.outputs.paths, report


def digests(paths):
    return [sha256(path) for path in paths]
