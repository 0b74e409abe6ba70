"""A model's folder tells what it holds, and how text is cleaned for it."""

import json

import pytest

from albert_tf import task_config
from albert_tf.checkpoints import model_dir
from albert_tf.checkpoints.model_dir import ModelDir, VocabularyFile
from albert_tf.serving import export
from helpers.fine_tuning_toys import write_table, write_vocabulary
from helpers.scripts import succeed
from helpers.tiny_weights import convert, random_model, write_model
from helpers.tokenization_cases import train

WORDPIECE, SENTENCEPIECE = "vocab.txt", "spiece.model"


@pytest.fixture(scope="module", params=[WORDPIECE, SENTENCEPIECE])
def cased(request, tmp_path_factory):
    """A cased model whose files say nothing of accents; whether they are stripped."""
    folder = tmp_path_factory.mktemp("cased")
    if request.param == WORDPIECE:
        write_vocabulary(folder)
    else:
        train(folder / SENTENCEPIECE)
    values = {"do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    tokenizer = model_dir.read_vocabulary(folder).tokenizer()
    config, weights = random_model(vocab_size=tokenizer.vocab_size)
    return write_model(folder, weights, config), request.param == SENTENCEPIECE


def metadata_of(cased):
    folder, strip_accents = cased
    metadata = ModelDir.read(folder).tokenizer().metadata()
    assert metadata["lower_case"] is False
    assert metadata["strip_accents"] is strip_accents
    return metadata


def test_a_folder_that_does_not_state_accents_is_exported_by_the_rule(cased):
    exported = export.from_model_dir(ModelDir.read(cased[0]))
    assert exported.tokenizer.metadata() == metadata_of(cased)


def test_a_folder_that_does_not_state_accents_is_converted_by_the_rule(cased, tmp_path):
    convert(cased[0], tmp_path / "own", "own")
    assert model_dir.read_metadata(tmp_path / "own") == metadata_of(cased)


@pytest.mark.parametrize("cased", [WORDPIECE], indirect=True)
def test_a_folder_that_does_not_state_accents_is_fine_tuned_by_the_rule(
    cased, tmp_path
):
    write_table(tmp_path / "train.tsv", 4, 1)
    succeed(
        "run_classifier.py",
        "--task_name=custom",
        "--train_file=train.tsv",
        f"--init_checkpoint={cased[0]}",
        "--output_dir=out",
        "--max_seq_length=17",
        "--train_batch_size=2",
        "--num_train_steps=1",
        cwd=tmp_path,
    )
    assert model_dir.read_metadata(tmp_path / "out") == metadata_of(cased)


def test_a_folder_holds_a_whole_model(tmp_path):
    config, weights = random_model()
    folder = write_model(tmp_path, weights, config)
    assert ModelDir.read(folder) == ModelDir(
        checkpoint=str(folder / "model.ckpt-best"),
        config=config,
        task_config=None,
        vocabulary=None,
        tokenizer_settings={},
        metrics={},
    )
    with pytest.raises(FileNotFoundError, match=r"no vocabulary \(spiece\.model or"):
        ModelDir.read(folder).tokenizer()
    squad = task_config.Squad(version_2=True, threshold=0.5)
    vocabulary = write_vocabulary(folder)
    for name, content in model_dir.model_files(vocabulary, squad.to_dict()).items():
        (folder / name).write_bytes(content)
    model = ModelDir.read(folder)
    assert (model.task_config, model.vocabulary) == (squad, vocabulary)
    assert model.tokenizer().vocab_size == 27


def test_a_folder_of_several_vocabularies_is_read_with_the_one_that_is_named(tmp_path):
    config, weights = random_model()
    folder = write_model(tmp_path, weights, config)
    names = ["vocab_a.txt", "vocab_b.txt"]
    for name in names:
        write_vocabulary(folder).rename(folder / name)
    with pytest.raises(ValueError, match=r"several.*vocab_a\.txt, vocab_b\.txt"):
        ModelDir.read(folder)
    model = ModelDir.read(folder, folder / names[1])
    assert model.vocabulary == folder / names[1]
    assert model.tokenizer().vocab_size == 27
    assert model_dir.vocabularies(folder) == [folder / name for name in names]


def test_a_folder_that_names_no_task_says_so(tmp_path):
    config, weights = random_model()
    model = ModelDir.read(write_model(tmp_path, weights, config))
    with pytest.raises(ValueError, match=r"not say what .* trained for \(task\.json\)"):
        model.require_task()


def test_a_vocabulary_of_another_model_is_refused(tmp_path):
    config, weights = random_model()
    folder = write_model(tmp_path, weights, config)
    tokenizer = VocabularyFile.with_cleaning(write_vocabulary(folder), {}).tokenizer()
    metadata = {**tokenizer.metadata(), "vocabulary_sha256": "f" * 64}
    (folder / "tokenizer.json").write_text(json.dumps(metadata))
    with pytest.raises(
        ValueError, match=r"not the vocabulary that .* was trained with"
    ):
        ModelDir.read(folder).tokenizer()


def test_a_new_task_configuration_reaches_the_best_weights_and_the_run(tmp_path):
    config, weights = random_model()
    write_model(tmp_path / "best", weights, config)
    for folder in (tmp_path, tmp_path / "best"):
        (folder / "task.json").write_text("{}")
    squad = task_config.Squad(version_2=True, threshold=0.5)
    model_dir.replace_task(tmp_path, squad.to_dict())
    assert ModelDir.read(tmp_path).task_config == squad
    assert json.loads((tmp_path / "task.json").read_text()) == squad.to_dict()


def test_sentencepiece_settings_are_transformers_own(tmp_path):
    settings = {"do_lower_case": False, "keep_accents": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert model_dir.read_cleaning(tmp_path) == {
        "lower_case": False,
        "strip_accents": False,
    }
    # Their file of this name is no setting of ours.
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    assert model_dir.read_cleaning(tmp_path)["lower_case"] is False
