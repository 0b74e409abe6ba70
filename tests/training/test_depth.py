"""Runs that grow: which layers a step applies, resuming, replicas, refusals."""

import numpy as np
import pytest

from albert_tf.tasks.pretraining import MASKED_LM
from albert_tf.training import run as training_run
from albert_tf.training.depth import DepthSchedule
from helpers.tiny import tiny_config
from helpers.training_jobs import (
    assert_equal_weights,
    make_job,
    one_device,
    train_until,
    two_devices,
    weights,
)

# Of four layers; stages that end between checkpoints, at 6 and 12, and in loops.
GROWING = "5:1,3:3"
DROPPING = tiny_config(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.1)


def curve_of(rows, folder, strategy=None, **changes):
    curve = []
    job = make_job(rows, folder, iterations_per_loop=1, **changes)
    train_until(job, 12, strategy, curve)
    return curve


def losses_of(curve):
    names = ("masked_lm_loss", "sentence_order_loss", "gradient_norm")
    return np.array([[report[name] for name in names] for report in curve])


@pytest.fixture(scope="module")
def growing(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("growing")
    return folder, curve_of(rows, folder, depth_schedule=GROWING)


def test_a_stage_ends_exactly_at_its_step():
    depths = DepthSchedule.parse("5:1,3:3")
    assert [depths.layers_after(step) for step in (0, 4, 5, 7, 8, 100)] == [
        *(1, 1, 3, 3, None, None)
    ]
    assert DepthSchedule.parse("").layers_after(0) is None


@pytest.mark.parametrize(
    "text", ["5", "5:", "5:1,", "0:1", "5:0", "5:1;3:2", "-5:1", "5:1, 3:2", "5.5:1"]
)
def test_other_forms_are_refused(text):
    with pytest.raises(ValueError, match=r"must be STEPS:LAYERS.* Received '.*'"):
        DepthSchedule.parse(text)


def check(text, config, can_grow=True):
    DepthSchedule.parse(text).check(config, 20, can_grow)


def test_depths_that_fit_are_allowed():
    check("", tiny_config(num_hidden_groups=4), can_grow=False)
    check("9:1,10:3", tiny_config())
    check("9:2,10:4", tiny_config(num_hidden_layers=6, attention_groups=2))


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("9:4", {}, "stay below num_hidden_layers, 4, which .* Received 4"),
        ("9:3,9:2", {}, "layers must rise .* Received 3, 2"),
        ("9:2,9:2", {}, "layers must rise .* Received 2, 2"),
        ("9:1", {"ffn_groups": 2}, "ffn_groups, 2, must divide .* Received 1"),
        ("9:2", {"num_hidden_groups": 4}, "num_hidden_groups, 4, must divide"),
        ("9:1,11:2", {}, "its steps, 20, must be below num_train_steps, 20"),
    ],
)
def test_depths_that_do_not_fit_are_refused(text, changes, message):
    with pytest.raises(ValueError, match=f"^depth_schedule: .*{message}"):
        check(text, tiny_config(**changes))


def test_another_task_cannot_grow():
    with pytest.raises(ValueError, match="depth_schedule is for pretraining alone"):
        check("9:1", tiny_config(), can_grow=False)


def test_reports_name_the_layers_of_a_run_that_grows(growing):
    _, curve = growing
    assert [report["layers"] for report in curve] == [*[1] * 5, *[3] * 3, *[4] * 4]


def test_a_stage_trains_a_model_of_its_depth(rows, tmp_path):
    """Weights are those of a run of a model of few layers, bit by bit."""
    changes = {"save_checkpoints_steps": 5}
    growing = make_job(
        rows, tmp_path / "a", model_config=DROPPING, depth_schedule="5:3", **changes
    )
    train_until(growing, 5)
    shallow = DROPPING.replace(num_hidden_layers=3)
    train_until(make_job(rows, tmp_path / "b", model_config=shallow, **changes), 5)
    assert_equal_weights(weights(tmp_path / "a"), weights(tmp_path / "b"))


@pytest.mark.parametrize("step", [5, 7])
def test_a_run_resumed_in_any_stage_ends_as_an_uninterrupted_one(
    step, growing, rows, tmp_path
):
    job = make_job(rows, tmp_path, depth_schedule=GROWING)
    train_until(job, step)
    results = training_run.run(job, one_device())
    assert results["train"]["layers"] == 4
    assert results["settings"]["depth_schedule"] == GROWING
    assert_equal_weights(weights(tmp_path), weights(growing[0]))


def test_two_replicas_have_the_losses_of_one(growing, rows, tmp_path):
    found = curve_of(rows, tmp_path, two_devices(), depth_schedule=GROWING)
    np.testing.assert_allclose(losses_of(found), losses_of(growing[1]), rtol=1e-5)


def test_evaluation_applies_all_layers_in_every_stage(rows, tmp_path):
    """That of a run in a stage of few layers is that of its weights in the model."""
    # Weights so large that the depth matters.
    config = tiny_config(initializer_range=0.5)
    job = make_job(
        *(rows, tmp_path / "out"),
        task=MASKED_LM,
        eval_rows=rows,
        model_config=config,
        depth_schedule="11:1",
        eval_steps=6,
    )
    reports = []
    offer = training_run.BestWeights.offer

    def record(self, model, report, step):
        reports.append((step, report))
        return offer(self, model, report, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_run.BestWeights, "offer", record)
        training_run.run(job, one_device())
    step, report = reports[0]
    assert step == 6
    losses = {}
    for layers in (1, 4):
        evaluation = make_job(
            *(None, tmp_path / f"eval_{layers}"),
            task=MASKED_LM,
            eval_rows=rows,
            init_checkpoint=str(tmp_path / "out" / "model.ckpt-6"),
            model_config=config.replace(num_hidden_layers=layers),
        )
        losses[layers] = training_run.run(evaluation, one_device())["masked_lm_loss"]
    assert report["masked_lm_loss"] == pytest.approx(losses[4], rel=1e-6)
    assert abs(losses[1] - losses[4]) > 1e-3
