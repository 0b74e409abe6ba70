"""Pretraining by its script: its job, and what is wrong about it, in one line."""

import numpy as np

from albert_tf.model.heads import PretrainingModel
from albert_tf.text.vocabulary_content import vocabulary_digest
from helpers import compact_rows, tiny
from helpers.fine_tuning_toys import TASK_CONFIG, config, write_vocabulary
from helpers.scripts import assert_one_line, run_script, succeed
from helpers.served_models import write_model


def recorder(jobs):
    """In place of `run`: keeps the job, and reports nothing."""

    def record(job, _):
        jobs.append(job)
        return {}

    return record


def test_flags_choose_the_schedule(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("albert_tf.training.run.run", recorder(jobs))
    tiny.write_rows(tmp_path / "rows.tfrecord", 5)
    tiny.tiny_config().to_json(tmp_path / "config.json")
    train = ["run_pretraining.py", "--input_file=rows.tfrecord", "--output_dir=out"]
    train += ["--albert_config_file=config.json", "--num_train_steps=20"]
    train += ["--num_warmup_steps=7"]
    wsd = [*train, "--lr_schedule=wsd"]
    succeed(*train, cwd=tmp_path)
    succeed(*wsd, "--num_decay_steps=13", "--depth_schedule=7:1,2:3", cwd=tmp_path)
    assert [job.depth_schedule for job in jobs] == ["", "7:1,2:3"]
    found = [job.optimizer_config for job in jobs]
    assert [one.lr_schedule for one in found] == ["polynomial", "wsd"]
    assert [one.num_decay_steps for one in found] == [0, 13]
    done = run_script(*wsd, "--num_decay_steps=14", cwd=tmp_path)
    assert_one_line(done, 1, "lr_schedule=wsd: warm-up, 7 steps, and num_decay_steps")
    done = run_script(*wsd, cwd=tmp_path)
    assert_one_line(done, 1, "num_decay_steps must be above 0 for lr_schedule=wsd")
    done = run_script(*train, "--lr_schedule=cosine", "--poly_power=2", cwd=tmp_path)
    assert_one_line(done, 1, "poly_power is for lr_schedule=polynomial alone")
    done = run_script(*train, "--depth_schedule=20:3", cwd=tmp_path)
    assert_one_line(done, 1, "depth_schedule: its steps, 20, must be below num_train_s")
    assert len(jobs) == 2


def test_flags_choose_the_phases(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("albert_tf.training.run.run", recorder(jobs))
    tiny.write_rows(tmp_path / "a.tfrecord", 5)
    tiny.write_rows(tmp_path / "b.tfrecord", 7, max_seq_length=16)
    tiny.tiny_config().to_json(tmp_path / "config.json")
    train = ["run_pretraining.py", "--input_file=*.tfrecord", "--output_dir=out"]
    train += ["--albert_config_file=config.json", "--num_warmup_steps=7"]
    phased = [*train, "--phases=18:10:12,2:16", "--train_batch_size=4"]
    succeed(*phased, cwd=tmp_path)
    succeed(*phased, "--num_train_steps=20", cwd=tmp_path)
    for job in jobs:
        assert [str(phase) for phase in job.phases] == ["18:10:12", "2:16:4"]
        assert [rows.total_rows for rows in job.train_sets] == [7, 5]
        assert job.optimizer_config.num_train_steps == 20
    assert len(jobs) == 2
    for flags, message in (
        ([], "b.tfrecord and a.tfrecord differ in features"),
        (["--phases=9:10:4,1:17"], "A phase of 17 tokens needs rows as long."),
        (["--phases=9:10:4"], "No phase reads b.tfrecord, rows of 16 tokens"),
        (["--phases=9-10"], "phases are written STEPS:LENGTH:BATCH"),
    ):
        assert_one_line(run_script(*train, *flags, cwd=tmp_path), 1, message)
    done = run_script(*phased, "--num_train_steps=21", cwd=tmp_path)
    assert_one_line(done, 1, "are 20 steps, but num_train_steps is 21")
    evaluated = [*phased, "--nodo_train", "--do_eval"]
    done = run_script(*evaluated, "--eval_input_file=a.tfrecord", cwd=tmp_path)
    assert_one_line(done, 2, "--phases is for training")


def test_a_run_is_evaluated_by_its_folder_alone(tmp_path, monkeypatch):
    evaluated = []
    monkeypatch.setattr("albert_tf.training.run.run", recorder(evaluated))
    tiny.write_rows(tmp_path / "rows.tfrecord", 5)
    config = tiny.tiny_config(hidden_size=24)
    (tmp_path / "out").mkdir()
    evaluate = ["run_pretraining.py", "--nodo_train", "--do_eval"]
    evaluate += ["--input_file=rows.tfrecord"]
    done = run_script(*evaluate, "--output_dir=nowhere", cwd=tmp_path)
    assert_one_line(done, 2, "Name the model's configuration: --albert_config_file")
    done = run_script(*evaluate, "--output_dir=out", cwd=tmp_path)
    assert_one_line(done, 1, "No albert_config.json next to out: pass --albert_con")
    assert not evaluated
    config.to_json(tmp_path / "out" / "albert_config.json")
    succeed(*evaluate, "--output_dir=out", cwd=tmp_path)
    [job] = evaluated
    # Without a start the run's own weights are evaluated.
    assert (job.model_config, job.init_checkpoint) == (config, "")


def test_flags_of_masks_are_for_rows_without_masks(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("albert_tf.training.run.run", recorder(jobs))
    size = tiny.tiny_config().vocab_size
    metadata = {**compact_rows.metadata(41), "vocab_size": size}
    metadata["ordinary_ids"] = [[5, size]]
    text = compact_rows.pairs(9, 41, np.random.default_rng(1))
    compact_rows.write(tmp_path / "compact.tfrecord", text, metadata)
    tiny.write_rows(tmp_path / "static.tfrecord", 5)
    tiny.tiny_config(max_position_embeddings=64).to_json(tmp_path / "config.json")
    train = ["run_pretraining.py", "--output_dir=out", "--num_train_steps=20"]
    train += ["--albert_config_file=config.json", "--num_warmup_steps=7"]
    static = [*train, "--input_file=static.tfrecord"]
    compact = [*train, "--input_file=compact.tfrecord"]

    succeed(*compact, "--masked_lm_prob_end=0.3", "--random_seed=8", cwd=tmp_path)
    succeed(*compact, "--ngram=2", "--max_predictions_per_seq=5", cwd=tmp_path)
    succeed(*static, f"--max_predictions_per_seq={tiny.MAX_PREDICTIONS}", cwd=tmp_path)
    first, second, third = (job.train_rows.masks for job in jobs)
    assert (first.random_seed, first.num_train_steps) == (8, 20)
    assert first.masking.max_predictions_per_seq == 12
    assert (second.masking.ngram, second.masking.max_predictions_per_seq) == (2, 5)
    assert third is None

    for flag in ("--masked_lm_prob=0.3", "--replace_with_keep=0.1", "--ngram=3"):
        done = run_script(*static, flag, cwd=tmp_path)
        name = flag.partition("=")[0]
        assert_one_line(done, 2, f"{name} is for rows without masks", "static.tfrecord")
    done = run_script(*static, "--max_predictions_per_seq=9", cwd=tmp_path)
    assert_one_line(done, 1, "max_predictions_per_seq=9 is asked for")
    for rate in ("0", "0.81"):
        done = run_script(*compact, f"--masked_lm_prob={rate}", cwd=tmp_path)
        assert_one_line(done, 1, "masked_lm_prob ", rate)
    done = run_script(*compact, "--max_seq_length=40", cwd=tmp_path)
    assert_one_line(done, 1, "max_seq_length=40 is asked for")
    # A held-out file with masks may go along, with its own number of predictions.
    evaluate = ["--do_eval", "--eval_input_file=static.tfrecord"]
    done = run_script(*compact, *evaluate, "--max_predictions_per_seq=9", cwd=tmp_path)
    assert len(jobs) == 4 and jobs[3].eval_rows.masks is None


def test_the_vocabulary_of_the_rows_is_left_with_the_model(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("albert_tf.training.run.run", recorder(jobs))
    vocabulary = write_vocabulary(tmp_path)
    content = vocabulary.read_bytes()
    size = len(content.split())
    tiny.write_rows(
        tmp_path / "rows.tfrecord",
        5,
        vocabulary_sha256=vocabulary_digest(vocabulary),
        vocab_size=size,
    )
    tiny.write_rows(tmp_path / "others.tfrecord", 5, vocab_size=size)
    (tmp_path / "start").mkdir()
    shape = config()
    model = PretrainingModel(shape, seed=3)
    write_model(tmp_path / "start", TASK_CONFIG, model, shape)
    (tmp_path / "start/task.json").unlink()
    shape.to_json(tmp_path / "config.json")
    train = ["run_pretraining.py", "--output_dir=out", "--num_train_steps=20"]
    train += ["--albert_config_file=config.json", "--num_warmup_steps=7"]
    rows, named = "--input_file=rows.tfrecord", "--vocab_file=vocab.txt"
    succeed(*train, rows, named, cwd=tmp_path)
    succeed(*train, rows, "--init_checkpoint=start", cwd=tmp_path)
    # Beside the records.
    succeed(*train, rows, cwd=tmp_path)
    others = ["--input_file=others.tfrecord", "--init_checkpoint=start"]
    said = succeed(*train, *others, cwd=tmp_path)
    assert [job.files for job in jobs] == [{"vocab.txt": content}] * 3 + [{}]
    assert "The vocabulary is not copied" in said
    done = run_script(*train, others[0], named, cwd=tmp_path)
    assert_one_line(done, 1, "vocabulary_sha256")
