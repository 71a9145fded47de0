"""Hugging Face: a MarianMT model from scratch, trained by Seq2SeqTrainer, a line per update.

    python hf_driver.py TASK.json

Runs in an environment that holds transformers; see `tools.py` for the task. Batches are grouped by
length, which is the trainer's own option against padding.
"""

import json
import sys
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from transformers import (
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    set_seed,
)
from update_log import UpdateLog, count_real

IGNORED = -100  # the label of padding
Pair = dict[str, list[int]]


class CountingTrainer(Seq2SeqTrainer):
    """Counts the real tokens of each batch."""

    log: UpdateLog

    def training_step(self, model: Any, inputs: dict[str, Any], *rest: Any) -> Any:
        src = count_real(inputs["attention_mask"], 0)
        self.log.count(src, count_real(inputs["labels"], IGNORED))
        return super().training_step(model, inputs, *rest)


class WriteUpdates(TrainerCallback):
    def __init__(self, log: UpdateLog) -> None:
        self.log = log

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.log.end_update()


def tokenizer_of(task: dict[str, Any]) -> MarianTokenizer:
    pieces = SentencePieceProcessor(model_file=task["tokenizer"])
    ids = {pieces.id_to_piece(id_): id_ for id_ in range(pieces.get_piece_size())}
    vocabulary = Path(task["work_dir"]) / "vocabulary.json"
    vocabulary.write_text(json.dumps(ids), encoding="utf-8")
    return MarianTokenizer(
        source_spm=task["tokenizer"], target_spm=task["tokenizer"], vocab=str(vocabulary)
    )


def read_pairs(task: dict[str, Any], tokenizer: MarianTokenizer) -> list[Pair]:
    src, tgt = (
        Path(task[side]).read_text(encoding="utf-8").rstrip("\n").split("\n")
        for side in ("src", "tgt")
    )
    encoded = tokenizer(src, text_target=tgt, truncation=True, max_length=task["max_length"])
    return [
        dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)
    ]


def model_of(task: dict[str, Any], tokenizer: MarianTokenizer) -> MarianMTModel:
    size = task["model"]
    return MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer),
            d_model=size["d_model"],
            encoder_layers=size["layers"],
            decoder_layers=size["layers"],
            encoder_attention_heads=size["heads"],
            decoder_attention_heads=size["heads"],
            encoder_ffn_dim=size["ffn"],
            decoder_ffn_dim=size["ffn"],
            dropout=size["dropout"],
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=512,
            init_std=size["d_model"] ** -0.5,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.convert_tokens_to_ids("<s>"),
            decoder_start_token_id=tokenizer.convert_tokens_to_ids("<s>"),
            forced_eos_token_id=None,
        )
    )


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if task["keep_memory"]:
        sys.path.append(str(Path(__file__).resolve().parents[2]))
        from transformer_mt.system.device import keep_memory

        keep_memory()
    set_seed(1)
    tokenizer = tokenizer_of(task)
    model = model_of(task, tokenizer)
    log = UpdateLog(task["log"])
    trainer = CountingTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=task["work_dir"],
            per_device_train_batch_size=task["sentences"],
            gradient_accumulation_steps=task["accumulate"],
            max_steps=1_000_000,
            learning_rate=5e-4,
            lr_scheduler_type="inverse_sqrt",
            warmup_steps=400,
            adam_beta2=0.98,
            label_smoothing_factor=0.1,
            bf16=task["precision"] == "bf16",
            use_cpu=True,
            train_sampling_strategy="group_by_length",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=read_pairs(task, tokenizer),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        callbacks=[WriteUpdates(log)],
        processing_class=tokenizer,
    )
    trainer.log = log
    trainer.train()


if __name__ == "__main__":
    main()
