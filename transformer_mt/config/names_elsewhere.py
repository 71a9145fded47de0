"""Names that other tools have for settings → the key here, or why there is none.

fairseq, OpenNMT, Marian, Sockeye, JoeyNMT, Hugging Face Transformers, Keras. A name is compared in
lower case, with `_` for `-`. This file knows nothing of types and ranges.
"""

from transformer_mt.messages.catalogue import tr

_NAMES = {
    "train.max_updates": "steps max_steps num_steps n_steps train_steps training_steps total_steps "
    "num_train_steps iterations n_iter max_iter max_update num_updates updates after_batches",
    "train.max_minutes": "minutes max_time time_limit train_minutes max_hours stop_time_hours",
    "train.tokens_per_update": "tokens_per_batch batch_tokens global_batch_size",
    "train.max_tokens": "micro_batch_size max_tokens_per_batch mini_batch_words maxi_batch",
    "train.lr": "learning_rate learningrate base_lr max_lr peak_lr initial_lr lrate step_size",
    "train.warmup_updates": "warmup warm_up warmup_steps num_warmup_steps learning_rate_warmup "
    "warmup_init_lr lr_warmup warmup_epochs n_warmup_steps warmup_ratio",
    "train.cooldown_updates": "cooldown decay_steps num_decay_steps lr_decay_inv_sqrt",
    "train.optimizer": "optim adam muon adamw optimizer_type",
    "train.momentum_warmup": "momentum muon_momentum beta mu nesterov momentum_warmup_steps",
    "train.weight_decay": "l2 l2_reg wd decoupled_weight_decay",
    "train.first_embeddings": "pretrained_embeddings embedding_init pre_word_vecs_enc "
    "pre_word_vecs_dec load_pretrained embeddings_path",
    "train.guided_attention": "guided_alignment guided_alignment_weight lambda_align",
    "train.adam_betas": "betas beta1 beta2 adam_beta1 adam_beta2 optimizer_betas",
    "train.adam_eps": "eps epsilon adam_epsilon",
    "train.clip_norm": "clip grad_clip gradient_clip clip_grad clip_gradients max_grad_norm "
    "clip_grad_norm gradient_clipping gradient_clipping_threshold gradient_clip_val",
    "train.label_smoothing": "smoothing label_smoothing_factor label_smooth epsilon_ls",
    "train.precision": "fp16 bf16 fp32 half amp dtype mixed_precision torch_dtype use_amp",
    "train.validate_every": "eval_steps eval_every eval_interval valid_steps valid_freq "
    "validation_freq validation_interval validate_interval validate_interval_updates "
    "evaluation_strategy save_steps save_every save_freq save_interval save_checkpoint_steps "
    "checkpoint_interval checkpoint_every val_check_interval save_interval_updates",
    "train.metric": "bleu chrf metrics eval_metric early_stopping_metric optimized_metric "
    "best_checkpoint_metric metric_for_best_model valid_metrics",
    "train.patience": "early_stopping early_stop early_stopping_patience stop_after "
    "max_num_checkpoint_not_improved",
    "train.log_every": "log_interval logging_steps logging_freq log_freq log_steps disp_freq "
    "report_every",
    "train.keep_last": "save_total_limit keep_checkpoint keep_checkpoints keep_last_ckpts "
    "keep_last_params keep_interval_updates keep_best_ckpts max_to_keep",
    "train.average": "average_checkpoints n_average average_last checkpoint_average",
    "train.track": "tensorboard wandb mlflow trackers logger log_dir logdir tensorboard_logdir "
    "report_to",
    "model.d_model": "hidden hidden_size hidden_dim d_hidden model_dim model_size dim n_embd "
    "embed_dim embedding_dim emb_dim embedding_size embeddings_dim dim_emb rnn_size word_vec_size "
    "dim_model width encoder_embed_dim decoder_embed_dim transformer_model_size num_units",
    "model.ffn": "ffn_dim d_ff dff ff ff_size ffn_size dim_ff dim_ffn ffn_hidden intermediate_size "
    "filter_size dim_feedforward feed_forward transformer_ff transformer_dim_ffn pf_dim "
    "encoder_ffn_embed_dim decoder_ffn_embed_dim feed_forward_size ffn_inner_dim",
    "model.heads": "head nhead nheads n_head n_heads num_heads num_attention_heads attention_heads "
    "encoder_attention_heads decoder_attention_heads transformer_heads",
    "model.encoder_layers": "enc_layers enc_depth n_encoder_layers num_encoder_layers n_enc_layers",
    "model.decoder_layers": "dec_layers dec_depth n_decoder_layers num_decoder_layers n_dec_layers",
    "model.dropout": "dropout_rate drop dropout_p attention_dropout hidden_dropout relu_dropout "
    "activation_dropout hidden_dropout_prob attention_probs_dropout_prob transformer_dropout",
    "model.architecture": "arch model_type positional_encoding position_encoding rope activation "
    "activation_fn hidden_act feed_forward_activation",
    "model.norm": "pre_norm prenorm norm_first layer_norm normalize_before "
    "encoder_normalize_before decoder_normalize_before transformer_preprocess "
    "transformer_postprocess norm_type",
    "model.tie_embeddings": "tied_embeddings tie_weights tied_softmax share_embeddings "
    "weight_tying tie_word_embeddings share_all_embeddings share_decoder_input_output_embed "
    "share_decoder_embeddings tied_embeddings_all tie_embedding",
    "data.max_length": "max_len max_seq_len max_seq_length max_sequence_length max_sent_length "
    "max_source_length max_target_length src_seq_length tgt_seq_length max_position_embeddings "
    "max_source_positions max_target_positions block_size",
    "tokenizer.vocab_size": "vocab vocabulary vocab_sizes vocabulary_size src_vocab_size "
    "tgt_vocab_size trg_vocab_size num_operations bpe_codes bpe_size n_vocab vocabs dim_vocabs "
    "src_vocab tgt_vocab max_vocab n_symbols spm_vocab_size",
    "tokenizer.joint": "share_vocab shared_vocab shared_vocabulary joint_vocab joined_dictionary "
    "joint_vocabulary joint_bpe",
    "tokenizer.type": "subword tokenizer_type subword_type bpe unigram spm sentencepiece "
    "tokenization segmentation level",
    "tokenizer.sampling": "bpe_dropout sentencepiece_alphas subword_regularization",
    "decode.beam": "beam_size num_beams beam_width beams k_best",
    "decode.length_penalty": "lenpen alpha beam_alpha length_alpha normalize word_penalty",
    "decode.max_length_ratio": "max_output_length max_new_tokens max_decoding_length max_len_a "
    "max_output_length_num_stds max_generation_length",
    "decode.channel": "noisy_channel rerank reranking reverse_weight ch_wt",
    "languages.src": "source src_lang source_lang source_language src_language lang_src from",
    "languages.tgt": "target trg tgt_lang trg_lang target_lang target_language tgt_language "
    "lang_tgt to",
    "data.train": "train_set train_sets train_data training_data train_file train_path train_src "
    "train_tgt train_source train_target trainpref corpus corpora dataset datasets data_path "
    "path_src path_tgt",
    "data.dev": "valid val validation valid_set valid_sets valid_data validation_data val_data "
    "dev_data dev_set validation_file validpref validation_source validation_target eval_data",
    "data.test": "test_set test_sets test_data test_file testpref",
    "data.root": "data_dir root_dir base_dir dataset_dir folder",
    "data.workers": "num_workers n_workers workers_per_gpu dataloader_num_workers num_proc threads "
    "cpu_threads",
    "data.cache": "cache_dir",
    "data.clean": "filter filters filtering cleaning",
    "name": "exp_name experiment experiment_name run_name title",
    "seed": "random_seed manual_seed rng_seed",
    tr("a training is counted in updates or minutes, not in epochs: train.max_updates, "
    "train.max_minutes; train.patience ends it early"):
    "epoch epochs n_epochs num_epochs max_epoch max_epochs num_train_epochs nb_epochs after_epochs",
    tr("an update is counted in target tokens, not in sentences: train.tokens_per_update; "
    "memory is train.max_tokens"):
    "batch_size batchsize batch bs train_batch_size mini_batch minibatch_size max_sentences "
    "per_device_train_batch_size batch_type",
    tr("gradients are summed until an update has train.tokens_per_update target tokens"):
    "gradient_accumulation gradient_accumulation_steps grad_accum accum_count update_freq "
    "update_interval batch_multiplier accumulate_grad_batches optimizer_delay",
    tr("encoder and decoder have their own: model.encoder_layers and model.decoder_layers"):
    "layers n_layers num_layers n_layer nlayers num_hidden_layers depth",
    tr("lr rises for train.warmup_updates and then falls with 1/√update; train.cooldown_updates "
    "lets it fall to 0"):
    "scheduler lr_scheduler lr_scheduler_type scheduling decay lr_decay decay_method "
    "learning_rate_decay schedule",
    tr("a run lies in runs/<name>, or where tmt train --run-dir DIR says"):
    "output_dir out_dir save_dir save_model model_dir model_path checkpoint_dir run_dir output "
    "save_path",
    tr("it belongs to the command: tmt train --device cpu|cuda|cuda:1, --processes N"):
    "device devices gpu gpus n_gpu n_gpus num_gpus use_cuda use_gpu use_cpu cuda world_size "
    "gpu_ranks accelerator nproc",
    tr("the same command resumes; tmt train --fresh begins anew"):
    "resume resume_from resume_from_checkpoint load_model restore_file load checkpoint "
    "reset_optimizer overwrite overwrite_output_dir train_from",
    tr("both are named: languages: {src: zh, tgt: en}"):
    "languages_pair lang langs language_pair lang_pair src_tgt",
    tr("tmt translate -i FILE; for training, data.train"): "input input_file inputs",
    tr("there is none"): "compile torch_compile gradient_checkpointing activation_checkpointing",
    tr("it is cross-entropy, with train.label_smoothing"): "loss criterion loss_fn",
    tr("it belongs to the command: see tmt translate --help"):
    "n_best temperature top_k top_p sampling_temperature no_repeat_ngram_size repetition_penalty",
}  # fmt: skip
MEANINGS = {name: meaning for meaning, names in _NAMES.items() for name in names.split()}


def meaning_of(name: str) -> str | None:
    """The key with the meaning of another tool's name, or in words why there is not just one."""
    return MEANINGS.get(name.lower().replace("-", "_"))
