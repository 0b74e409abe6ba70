#!/usr/bin/env bash
# Sets up and does the main job: raw text -> vocabulary -> records -> pretrained ALBERT
# -> its evaluation -> a fine-tuned classifier -> SavedModels -> answers. About six minutes
# on two cores, after the set-up.
set -euo pipefail

usage="Usage: run_scripts/quickstart.sh [options]
  --input=FILES          your own text: files, comma lists, globs (quote them);
                         without it, the King James Bible from a Python package
  --input_format=FORMAT  raw (the default), lines or jsonl
  --language=CODE        language of the text (en)
  --output_dir=DIR       where all of it goes (quickstart_output)
  --vocab_size=N         tokens of the vocabulary (1200)
  --num_train_steps=N    optimizer steps (4200)
What is there already is kept; training that was stopped goes on where it was."

input="" input_format=raw language=en output=quickstart_output vocab_size=1200 steps=4200
for option in "$@"; do
  case "$option" in
    --input=?*) input="${option#*=}" ;;
    --input_format=?*) input_format="${option#*=}" ;;
    --language=?*) language="${option#*=}" ;;
    --output_dir=?*) output="${option#*=}" ;;
    --vocab_size=?*) vocab_size="${option#*=}" ;;
    --num_train_steps=?*) steps="${option#*=}" ;;
    --help) echo "$usage"; exit 0 ;;
    *) printf 'ERROR: Unknown option %s\n%s\n' "$option" "$usage" >&2; exit 2 ;;
  esac
done
for number in "$vocab_size" "$steps"; do
  if ! [[ "$number" =~ ^[1-9][0-9]*$ ]]; then
    echo "ERROR: $number is not a whole number above 0." >&2
    exit 2
  fi
done

extra=quickstart
source "$(dirname "${BASH_SOURCE[0]}")/set_up.sh"
scripts="$repository/run_scripts"
# Where the packages of its steps are found.
export PYTHONPATH="$scripts${PYTHONPATH:+:$PYTHONPATH}"
lengths=(--max_seq_length=128 --max_predictions_per_seq=20)
vocabulary="$output/vocabulary.model"
config="$output/albert_config.json"

step() { printf '\n== %s\n' "$*"; }

# missing FILE: whether a step has to make it.
missing() {
  if [ -e "$1" ]; then echo "$1 is there already."; return 1; fi
}

step "Text"
python "$scripts/quickstart/corpus.py" --input_file="$input" --language="$language" \
  --input_format="$input_format" --output_dir="$output/text" \
  --albert_config_file="$repository/configs/albert_tiny.json" --vocab_size="$vocab_size"

step "Vocabulary of $vocab_size tokens"
if missing "$vocabulary"; then
  python "$scripts/train_sentencepiece.py" --input_file="$output/text/train.jsonl" \
    --input_format=jsonl --model_prefix="$output/vocabulary" \
    --vocab_size="$vocab_size" --language="$language"
fi

for part in train eval; do
  step "Records: $part"
  copies=15
  if [ "$part" = eval ]; then copies=5; fi
  if missing "$output/$part.tfrecord.json"; then
    python "$scripts/create_pretraining_data.py" --input_format=jsonl \
      --input_file="$output/text/$part.jsonl" --spm_model_file="$vocabulary" \
      --output_file="$output/$part.tfrecord" --dupe_factor="$copies" \
      --language="$language" "${lengths[@]}"
  fi
done

# progress: status and step of the training, if there is any.
progress() {
  if [ -e "$output/model/results.json" ]; then
    python "$scripts/quickstart/status.py" --output_dir="$output/model"
  fi
}

step "Pretraining and evaluation: $steps steps"
if [ "$(progress)" = "finished $steps" ]; then
  echo "$output/model is there already."
else
  python "$scripts/run_pretraining.py" --do_eval --albert_config_file="$config" \
    --input_file="$output/train.tfrecord" --eval_input_file="$output/eval.tfrecord" \
    --spm_model_file="$vocabulary" --output_dir="$output/model" "${lengths[@]}" \
    --train_batch_size=16 --optimizer=adamw --learning_rate=0.001 \
    --num_train_steps="$steps" --num_warmup_steps=$((steps / 10)) \
    --save_checkpoints_steps=500
fi
read -r status trained <<<"$(progress)"
if [ "$status" != finished ]; then
  echo "Training stopped at step $trained: the same command goes on from there."
  exit 0
fi

step "SavedModel for TensorFlow Serving"
if missing "$output/saved_model/$trained"; then
  python "$scripts/export_saved_model.py" --model="$output/model" \
    --export_dir="$output/saved_model" --model_version="$trained"
fi

# Text of one's own has no labels.
if [ -z "$input" ]; then
  step "Fine-tuning: from which part of the book is a paragraph?"
  if missing "$output/classifier/results.json"; then
    python "$scripts/run_classifier.py" --task_name=custom --do_eval \
      --train_file="$output/text/train.jsonl" --dev_file="$output/text/eval.jsonl" \
      --init_checkpoint="$output/model" --output_dir="$output/classifier" \
      --max_seq_length=128 --num_train_epochs=3 --learning_rate=0.0002 \
      --export_dir="$output/saved_classifier"
  fi
fi

step "Result"
python "$scripts/quickstart/report.py" --output_dir="$output"
