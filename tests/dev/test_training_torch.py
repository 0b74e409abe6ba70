"""PyTorch's model is the same one; needs the extra `peers`."""

import math

import pytest

torch = pytest.importorskip("torch")

from albert_tf.analysis.costs import parameter_counts  # noqa: E402
from albert_tf.config import OptimizerConfig, TrainConfig  # noqa: E402
from dev import training_torch  # noqa: E402
from dev.benchmark_train import Case, random_batch  # noqa: E402
from helpers.tiny import VOCAB_SIZE, tiny_config  # noqa: E402

CONFIG = tiny_config(num_hidden_layers=2)


def case(optimizer="lamb", precision="float32"):
    train_config = TrainConfig("unused", train_batch_size=4, precision=precision)
    return Case("tiny.json", train_config, optimizer, 11, 3, 1, CONFIG)


def test_it_has_as_many_parameters_and_starts_from_the_loss_of_chance():
    model = training_torch.Albert(CONFIG)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == sum(parameter_counts(CONFIG).values())
    batch = {k: torch.from_numpy(v).long() for k, v in random_batch(case()).items()}
    expected = math.log(VOCAB_SIZE) + math.log(2)
    assert model(batch).item() == pytest.approx(expected, abs=0.2)


def test_an_update_of_lamb_has_the_norm_of_the_weights_times_the_rate():
    weights = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    config = OptimizerConfig(learning_rate=0.1)
    optimizer = training_torch.Lamb([weights], config)
    weights.grad = torch.tensor([0.5, -2.0])
    before = weights.detach().clone()
    optimizer.step()
    assert (before - weights).norm().item() == pytest.approx(0.1 * 5, rel=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "precision"), [("lamb", "float32"), ("adamw", "bfloat16")]
)
def test_steps_are_timed(optimizer, precision):
    step = training_torch.make_torch_step(case(optimizer, precision))
    seconds, busy = step()
    assert seconds > 0 and busy > 0
