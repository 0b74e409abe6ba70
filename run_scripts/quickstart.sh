#!/usr/bin/env bash
# Sets up and does the main job: raw text -> vocabulary -> records -> pretrained ALBERT
# -> its evaluation -> SavedModel -> an answer. About five minutes on two cores, after
# the set-up.
#
#   run_scripts/quickstart.sh                          on prose that Python carries
#   run_scripts/quickstart.sh --input='books/*.txt'    on text of your own
#
# Options: --input=FILES (comma list, globs), --input_format=raw|lines|jsonl,
# --output_dir=DIR (default: quickstart_output), --num_train_steps=N.
# Each step is skipped if its output is there; training resumes where it was.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/set_up.sh"

input="" input_format=raw output="quickstart_output" steps=1500
for option in "$@"; do
  case "$option" in
    --input=?*) input="${option#*=}" ;;
    --input_format=?*) input_format="${option#*=}" ;;
    --output_dir=?*) output="${option#*=}" ;;
    --num_train_steps=?*) steps="${option#*=}" ;;
    *) echo "ERROR: Unknown option $option: see the head of this script." >&2; exit 2 ;;
  esac
done

scripts="$repository/run_scripts"
config="$repository/configs/albert_tiny.json"
vocab_size="$(python -c "import json; print(json.load(open('$config'))['vocab_size'])")"
lengths=(--max_seq_length=128 --max_predictions_per_seq=20)
vocabulary="$output/vocabulary.model"

step() { printf '\n== %s\n' "$*"; }

step "Text"
if [ ! -f "$output/text/eval.jsonl" ]; then
  python "$scripts/quickstart_corpus.py" --input_file="$input" \
    --input_format="$input_format" --output_dir="$output/text"
fi

step "Vocabulary of $vocab_size pieces"
if [ ! -f "$vocabulary" ]; then
  python "$scripts/train_sentencepiece.py" --input_file="$output/text/train.jsonl" \
    --input_format=jsonl --model_prefix="$output/vocabulary" --vocab_size="$vocab_size"
fi

for part in train eval; do
  step "Records: $part"
  copies=20
  if [ "$part" = eval ]; then copies=5; fi
  if [ ! -f "$output/$part.tfrecord.json" ]; then
    python "$scripts/create_pretraining_data.py" --input_format=jsonl \
      --input_file="$output/text/$part.jsonl" --spm_model_file="$vocabulary" \
      --output_file="$output/$part.tfrecord" --dupe_factor="$copies" "${lengths[@]}"
  fi
done

step "Pretraining and evaluation: $steps steps"
python "$scripts/run_pretraining.py" --do_eval --albert_config_file="$config" \
  --input_file="$output/train.tfrecord" --eval_input_file="$output/eval.tfrecord" \
  --spm_model_file="$vocabulary" --output_dir="$output/model" "${lengths[@]}" \
  --train_batch_size=32 --learning_rate=0.01 \
  --num_train_steps="$steps" --num_warmup_steps=$((steps / 10)) \
  --iterations_per_loop=100 --save_checkpoints_steps=500

step "SavedModel for TensorFlow Serving"
if [ ! -d "$output/saved_model/1" ]; then
  python "$scripts/export_saved_model.py" --init_checkpoint="$output/model" \
    --export_dir="$output/saved_model/1"
fi

step "Result"
python "$scripts/quickstart_report.py" --output_dir="$output"
