"""Pretraining by its script: a run that is evaluated needs its folder alone."""

from helpers import tiny
from helpers.scripts import assert_one_line, run_script, succeed


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
