"""Tasks of all kinds of task configurations, and the models that they build."""

import pytest

from albert_tf.model.heads import ClassificationModel, MultipleChoiceModel
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from albert_tf.task_config import Classification, MultipleChoice, Regression, Squad
from albert_tf.tasks import create_task
from helpers.tiny import tiny_config

TASKS = {
    Classification: (
        Classification("toy", ["a", "b", "c"], ["f1", "eval_accuracy"]),
        "f1",
        ClassificationModel,
    ),
    Regression: (Regression("toy"), "pearson", ClassificationModel),
    MultipleChoice: (MultipleChoice("toy"), "eval_accuracy", MultipleChoiceModel),
    "v1.1": (Squad(False), "f1", SpanModel),
    "v2.0": (Squad(True, start_n_top=3), "best_f1", AnswerableSpanModel),
}


@pytest.mark.parametrize("kind", TASKS)
def test_a_configuration_makes_its_task(kind):
    task_config, best_metric, model_class = TASKS[kind]
    task = create_task(task_config, dropout=0.2)
    assert (task.name, task.best_metric) == (task_config.task_name, best_metric)
    assert task.metrics == {} and task.predictions
    model = task.build_model(tiny_config(num_hidden_layers=1), seed=1)
    assert type(model) is model_class
    options = model.get_config()
    assert options.get("head_dropout", 0.2) == 0.2
    if kind is Classification:
        assert options["num_outputs"] == 3
    if kind == "v2.0":
        assert options["start_n_top"] == 3


def test_metrics_of_squad_need_its_questions():
    assert create_task(Squad(True)).host_metrics is None
    assert create_task(Regression("toy")).host_metrics


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match=r"Received \{\}: pass a value"):
        create_task({})
