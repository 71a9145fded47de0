#!/usr/bin/env bash
# What a GPU makes of tmt, measured in half an hour; the result is one Markdown table.
#
#     scripts/bench/gpu.sh FOLDER                # on a machine with a GPU
#     scripts/bench/gpu.sh --dry FOLDER          # every line, in small, on a CPU
#
# Measured are: 50 updates against those of the CPU, kernels beside torch's, micro-batches as
# recordings and operation by operation, training and translating for each size, a trace of updates
# of the base model, one training to its end (of multi30k-en-de, whose text lies in DATA_ROOT; CONFIG=tiny
# needs none), its translations, and CTranslate2's with the same weights where that is installed.
# TEXT=multi30k/train measures training on multi30k/train.en and .de, instead of the bundled corpus,
# which is too small for updates of 25,000 tokens. With several GPUs training uses all of them:
# CUDA_VISIBLE_DEVICES=0 measures one.
set -euo pipefail
dry=false
if [[ ${1:-} == --dry ]]; then dry=true; shift; fi
out=${1:?names a folder for the results}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python}
tmt=("$python" -m transformer_mt)
mkdir -p "$out"

sizes=${SIZES:-tiny base big} config=${CONFIG:-multi30k-en-de}
root=()
if [[ -n ${DATA_ROOT:-} ]]; then root=(--set "data.root=$DATA_ROOT"); fi
text=()
if [[ -n ${TEXT:-} ]]; then text=(--src "$TEXT.en" --tgt "$TEXT.de"); fi
updates=30 sentences=512 beside=4096 max_tokens=${MAX_TOKENS:-16384} profiled=10 most=0
before=102  # updates, that a trace does not record on a GPU
base=(model.d_model=512 model.heads=8 model.ffn=2048 model.encoder_layers=6 model.decoder_layers=6
      train.max_tokens="$max_tokens" train.tokens_per_update=25000)
if $dry; then
    sizes=tiny config=tiny updates=1 sentences=16 beside=16 max_tokens=512 profiled=2 most=6 before=6
    base=(train.max_tokens=256 train.tokens_per_update=512)
fi
"${tmt[@]}" plan "$config" "${root[@]}" > "$out/plan.txt"  # its text is there
set_all() { printf -- '--set\n%s\n' "$@"; }

step() { printf '\n== %s (%s)\n' "$1" "$(date +%T)" >&2; }

step "50 updates on the CPU and on the GPU"
fifty=(model.dropout=0 train.max_updates=50 train.cooldown_updates=0 train.log_every=1 train.validate_every=50
       train.max_tokens=1024 train.average=0 data.test=\{\})
mapfile -t settings < <(set_all "${fifty[@]}")
curve() {  # NAME DEVICE PRECISION
    "${tmt[@]}" train tiny --quiet --fresh --processes 1 --device "$2" --run-dir "$out/small" \
        "${settings[@]}" --set train.precision="$3"
    cp "$out/small/metrics.jsonl" "$out/$1.jsonl"
}
curve cpu-fp32 cpu fp32
curve auto-fp32 auto fp32
curve auto-bf16 auto bf16

step "kernels and recordings"
if ! $dry; then
    "$python" "$here/kernels.py" > "$out/kernels.txt"
    "$python" "$here/recordings.py" --sizes "${sizes// /,}" > "$out/recordings.txt"
fi

for size in $sizes; do
    step "training and translating, $size"
    "${tmt[@]}" bench train --size "$size" --updates "$updates" --max-tokens "$max_tokens" \
        "${text[@]}" --json > "$out/train-$size.json"
    "${tmt[@]}" bench decode --size "$size" --sentences "$sentences" --rounds 1 --json \
        > "$out/decode-$size.json"
done

step "a trace of base"
mapfile -t settings < <(set_all "${base[@]}" train.max_updates=$((profiled + before)) \
    train.cooldown_updates=0 train.validate_every=100 train.average=0 data.test=\{\})
"${tmt[@]}" train tiny --fresh --run-dir "$out/small" --profile "$profiled" "${settings[@]}" \
    2> "$out/profile.txt"

step "a training to its end: $config"
settings=()
if ((most)); then
    mapfile -t settings < <(set_all train.max_updates="$most" train.cooldown_updates=0 \
        train.warmup_updates=2 train.validate_every="$most" train.average=0)
fi
"${tmt[@]}" train "$config" "${root[@]}" --run-dir "$out/trained" --json "${settings[@]}" > "$out/trained.json"
"${tmt[@]}" bench decode -m "$out/trained" --src "$out/trained/data/clean/dev.src" \
    --sentences "$sentences" --json > "$out/decode-trained.json"

step "translating beside CTranslate2"
if "$python" -c "import ctranslate2" 2> /dev/null; then
    "${tmt[@]}" export -m "$out/trained" --to ctranslate2 -o "$out/ctranslate2"
    "$python" "$here/gpu_report.py" "$out" --time-ctranslate2 "$beside"
fi
"$python" "$here/gpu_report.py" "$out"
