"""Small texts, tables, questions and configurations that the commands read."""

import json
from pathlib import Path

ANIMALS = ["cat", "dog", "rat", "owl", "hen", "fox", "bee"]
PLACES = ["mat", "hill", "café", "lake", "barn"]
DEEDS = ["sat on", "ran to", "slept near", "flew over"]
TIMES = ["at noon", "in May", "all night", "for 12 days"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def sentence(number: int) -> str:
    """One of many sentences; numbers beside each other give unlike ones."""
    animal = ANIMALS[number % 7]
    place, deed = PLACES[number * 3 % 5], DEEDS[number * 5 % 4]
    return f"The {animal} {deed} the {place} {TIMES[number // 3 % 4]}."


class Inputs:
    """Writes them into a folder."""

    def __init__(self, folder: Path):
        self._folder = folder

    def write(self, name: str, *lines: str) -> None:
        """Writes a text file of lines."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def write_json(self, name: str, content) -> None:
        """Writes a JSON file."""
        self.write(name, json.dumps(content, ensure_ascii=False, indent=1))

    def write_config(self, name: str, vocab_size: int) -> None:
        """Writes the configuration of a tiny model."""
        config = {
            "vocab_size": vocab_size,
            "embedding_size": 6,
            "hidden_size": 12,
            "num_hidden_layers": 2,
            "num_hidden_groups": 1,
            "num_attention_heads": 3,
            "intermediate_size": 20,
            "inner_group_num": 1,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
            "max_position_embeddings": 64,
            "type_vocab_size": 2,
            "initializer_range": 0.2,
        }
        self.write_json(name, config)

    def make_text(self) -> None:
        """A corpus with short and long documents, and a WordPiece vocabulary for it."""
        lines = []
        for document in range(9):
            lines += [sentence(document * 7 + n) for n in range(2 + document * 5 % 8)]
            lines.append("")
        self.write("text.txt", *lines[:-1])
        words = " ".join(lines).lower().replace("é", "e").replace(".", "").split()
        self.write(
            "vocab.txt", *SPECIAL, ".", ",", "?", *sorted({*words}), "##s", "who", "did"
        )

    def make_tables(self) -> None:
        """A table of one's own, and folders of three GLUE tasks."""

        def rows(first, count, label):
            return [
                (sentence(n), sentence(n * 2 + 1), label(n), n)
                for n in range(first, first + count)
            ]

        mood = rows(0, 12, lambda n: ("calm", "wild")[n % 4 in (1, 3)])
        self.write(
            "table/train.tsv", "text\tlabel", *(f"{a}\t{y}" for a, _, y, _ in mood)
        )
        mood = rows(20, 6, lambda n: ("calm", "wild")[n % 2])
        self.write(
            "table/dev.tsv", "text\tlabel", *(f"{a}\t{y}" for a, _, y, _ in mood)
        )
        self.write(
            "table/new.csv", "more,text", *(f'{n},"{a}, ""so""?"' for a, *_, n in mood)
        )
        for place, (name, count) in enumerate((("train", 8), ("dev", 5), ("test", 4))):
            first = 10 * place
            pairs = rows(
                first, count, lambda n: ("entailment", "not_entailment")[n % 2]
            )
            test = name == "test"
            self.write(
                f"glue/RTE/{name}.tsv",
                "index\tsentence1\tsentence2" + "\tlabel" * (not test),
                *(f"{n}\t{a}\t{b}" + f"\t{y}" * (not test) for a, b, y, n in pairs),
            )
            scored = rows(first, count, lambda n: f"{n % 11 / 2:.3f}")
            self.write(
                f"glue/STS-B/{name}.tsv",
                "index\tgenre\tsentence1\tsentence2" + "\tscore" * (not test),
                *(
                    f"{n}\tnews\t{a}\t{b}" + f"\t{y}" * (not test)
                    for a, b, y, n in scored
                ),
            )
            single = rows(first, count, lambda n: str(n % 2))
            lines = [f"gj04\t{y}\t\t{a}" for a, _, y, _ in single]
            if test:
                lines = ["index\tsentence", *(f"{n}\t{a}" for a, *_, n in single)]
            self.write(f"glue/CoLA/{name}.tsv", *lines)

    def make_choices(self) -> None:
        """RACE's folders, and questions as JSON lines."""
        for place, (name, count) in enumerate((("train", 2), ("dev", 2), ("test", 2))):
            for level in ("middle", "high"):
                for file in range(count):
                    first = 30 * place + 7 * file + (level == "high")
                    passage = {
                        "id": f"{level}{file}.txt",
                        "article": " ".join(
                            sentence(first + n) for n in range(2 + file)
                        ),
                        "questions": [
                            "Who sat?",
                            f"The {ANIMALS[first % 7]} _ the lake .",
                        ],
                        "options": [ANIMALS[:4], DEEDS],
                        "answers": ["ABCD"[first % 4], "ABCD"[file]],
                    }
                    self.write_json(f"RACE/{name}/{level}/{file}.txt", passage)
        lines = []
        for number in range(5):
            question = {
                "id": f"q{number}",
                "article": sentence(number + 50),
                "question": "Who did?",
                "options": ANIMALS[: 2 + number % 2],
                "answer": "AB"[number % 2],
            }
            lines.append(json.dumps(question))
        self.write("quiz/test.jsonl", *lines)

    def make_questions(self) -> None:
        """SQuAD files of one window a paragraph and of several."""
        for version in ("v1", "v2"):
            for split, first in (("train", 0), ("dev", 60)):
                paragraphs = []
                for number in range(3):
                    sentences = [
                        sentence(first + 9 * number + n) for n in range(1 + 3 * number)
                    ]
                    text, asked = " ".join(sentences), []
                    for place in range(min(2, len(sentences))):
                        answer = sentences[place].split()[1]
                        start = text.index(sentences[place]) + len("The ")
                        deed = " ".join(sentences[place].split()[2:])
                        each = {
                            "id": f"{split}-{number}-{place}",
                            "question": f"Who did {deed}?",
                            "answers": [{"text": answer, "answer_start": start}],
                        }
                        if version == "v2":
                            each["is_impossible"] = (number + place) % 2 == 0
                            each["answers"] *= not each["is_impossible"]
                        asked.append(each)
                    paragraphs.append({"context": text, "qas": asked})
                data = [{"title": "animals", "paragraphs": paragraphs}]
                self.write_json(
                    f"squad/{version}-{split}.json", {"version": version, "data": data}
                )
        self.write("squad/context.txt", *(sentence(n) for n in (3, 8, 13)))

    def make_all(self) -> None:
        """Writes all of them; the SentencePiece model is made of the text."""
        self.make_text()
        self.make_tables()
        self.make_choices()
        self.make_questions()
        words = (self._folder / "vocab.txt").read_text("utf-8").splitlines()
        self.write_config("wordpiece.json", len(words))
        self.write_config("sentencepiece.json", 50)
