"""The Python of the README and of the pages: it compiles, its names exist, it runs."""

import ast
import importlib

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from helpers import docs_pages
from helpers.docs_pages import PAGES, README, ROOT
from helpers.questions import question, write_squad

BLOCKS = [(page, code) for page in PAGES for code in docs_pages.blocks(page, "python")]
OWN = ("albert_tf", "data_prep")
# Whose blocks are whole programs, to be run in a folder that holds toys.
PROGRAMS = [
    (page, code)
    for page, code in BLOCKS
    if page in (README, ROOT / "docs" / "python.md")
]
WORDS = ["the", "cat", "sat", "on", "mat", "how", "are", "you", "fine", "thanks"]


def ids(cases):
    return [f"{page.stem}-{number}" for number, (page, _) in enumerate(cases)]


@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=ids(BLOCKS))
def test_a_block_compiles(page, code):
    compile(code, docs_pages.name_of(page), "exec")


def own_names(code):
    """Dotted names of this project that a block imports or reads attributes of."""
    tree = ast.parse(code)
    bound, names = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
                names.add(alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                names.add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node).split(".")
            if first in bound and all(part.isidentifier() for part in rest):
                names.add(".".join([bound[first], *rest]))
    return sorted(name for name in names if name.split(".")[0] in OWN)


def find(name):
    """The object of a dotted name: modules first, then attributes."""
    first, *rest = name.split(".")
    found, path = importlib.import_module(first), first
    for part in rest:
        path += f".{part}"
        if not hasattr(found, part):
            importlib.import_module(path)
        found = getattr(found, part)
    return found


def test_names_are_found_in_imports_and_attributes():
    code = "import albert_tf\nfrom data_prep import glue as g\nalbert_tf.a.B(1)\ng.C\n"
    assert own_names(code) == [
        "albert_tf",
        "albert_tf.a",
        "albert_tf.a.B",
        "data_prep.glue",
        "data_prep.glue.C",
    ]
    assert find("albert_tf.config.AlbertConfig").__name__ == "AlbertConfig"
    with pytest.raises(ModuleNotFoundError):
        find("albert_tf.config.AlbertConfigs")


@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=ids(BLOCKS))
def test_its_names_of_this_project_exist(page, code):
    for name in own_names(code):
        find(name)


def test_the_public_names_that_a_page_lists_are_there():
    import albert_tf

    table = docs_pages.read(ROOT / "docs" / "python.md").split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    names = [name for row in rows for name in row.split("`")[1::2]]
    assert len(names) >= 14
    for name in names:
        getattr(albert_tf, name)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """A folder with a toy in the place of every file that the programs read."""
    import albert_tf

    folder = tmp_path_factory.mktemp("toys")
    model = folder / "albert_base"
    model.mkdir()
    rng = np.random.default_rng(3)
    sentences = [" ".join(rng.choice(WORDS, 6)) + "." for _ in range(300)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(model / "30k-clean"),
        vocab_size=41,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    tokenizer = albert_tf.AlbertTokenizer(spm_model_file=str(model / "30k-clean.model"))
    config = albert_tf.AlbertConfig(
        vocab_size=tokenizer.vocab_size,
        embedding_size=6,
        hidden_size=12,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=512,
    )
    config.to_json(model / "albert_config.json")
    variables = albert_tf.PretrainingModel(config, seed=1).variables
    # As TensorFlow 1 has them: by their released names.
    tf.raw_ops.SaveV2(
        prefix=str(model / "model.ckpt-best"),
        tensor_names=[variable.name.split(":")[0] for variable in variables],
        shape_and_slices=[""] * len(variables),
        tensors=[variable.value() for variable in variables],
    )
    write_data(folder)
    return folder


def write_data(folder):
    """Data of each task under the names that the page has."""
    rows = [("the cat sat", "how are you", n % 2) for n in range(12)]
    (folder / "glue" / "RTE").mkdir(parents=True)
    for name in ("train", "dev"):
        lines = ["index\tsentence1\tsentence2\tlabel"]
        for index, (first, second, label) in enumerate(rows):
            answer = ("entailment", "not_entailment")[label]
            lines.append(f"{index}\t{first}\t{second}\t{answer}")
        (folder / "glue" / "RTE" / f"{name}.tsv").write_text("\n".join(lines))
    for name, count in (("mail", 12), ("dev", 6)):
        lines = ["body,folder"]
        lines += [f"{first},{('in', 'out')[label]}" for first, _, label in rows[:count]]
        (folder / f"{name}.csv").write_text("\n".join(lines))
    (folder / "new.csv").write_text("body\nthe cat sat\nhow are you\n")
    text = "the cat sat on the mat"
    asked = [
        question("a", "how are you", [("cat", 4)], is_impossible=False),
        question("b", "fine", is_impossible=True),
    ]
    for name in ("train", "dev"):
        write_squad(folder / f"{name}-v2.0.json", [(text, asked)], version="v2.0")


@pytest.mark.parametrize(("page", "code"), PROGRAMS, ids=ids(PROGRAMS))
def test_it_runs_on_toys(page, code, toys, monkeypatch, capsys):
    monkeypatch.chdir(toys)
    exec(compile(code, docs_pages.name_of(page), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
