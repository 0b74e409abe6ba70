"""Pretraining by its script: its job, and what is wrong about it, in one line."""

from helpers import tiny
from helpers.scripts import assert_one_line, run_script, succeed


def test_flags_choose_the_schedule(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr("albert_tf.training.run.run", lambda job, _: jobs.append(job))
    tiny.write_rows(tmp_path / "rows.tfrecord", 5)
    tiny.tiny_config().to_json(tmp_path / "config.json")
    train = ["run_pretraining.py", "--input_file=rows.tfrecord", "--output_dir=out"]
    train += ["--albert_config_file=config.json", "--num_train_steps=20"]
    train += ["--num_warmup_steps=7"]
    wsd = [*train, "--lr_schedule=wsd"]
    succeed(*train, cwd=tmp_path)
    succeed(*wsd, "--num_decay_steps=13", cwd=tmp_path)
    found = [job.optimizer_config for job in jobs]
    assert [one.lr_schedule for one in found] == ["polynomial", "wsd"]
    assert [one.num_decay_steps for one in found] == [0, 13]
    done = run_script(*wsd, "--num_decay_steps=14", cwd=tmp_path)
    assert_one_line(done, 1, "lr_schedule=wsd: warm-up, 7 steps, and num_decay_steps")
    done = run_script(*wsd, cwd=tmp_path)
    assert_one_line(done, 1, "num_decay_steps must be above 0 for lr_schedule=wsd")
    done = run_script(*train, "--lr_schedule=cosine", "--poly_power=2", cwd=tmp_path)
    assert_one_line(done, 1, "poly_power is for lr_schedule=polynomial alone")
    assert len(jobs) == 2


def test_a_run_is_evaluated_by_its_folder_alone(tmp_path, monkeypatch):
    evaluated = []
    monkeypatch.setattr(
        "albert_tf.training.run.run", lambda job, _: evaluated.append(job)
    )
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
