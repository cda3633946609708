"""What a LoRA file tells about its making. Never a path, a name of a person, or a date."""

from onetrainer.config.train import TrainConfig


def lora_metadata(config: TrainConfig, step: int) -> dict[str, str]:
    """The fields that other programs show, by kohya's names; all values are text."""
    side, precision = config.data.resolution, config.hardware.precision
    encoder_lr = config.optimizer.text_encoder_lr or config.optimizer.lr
    return {
        "ss_output_name": config.output.name,
        "ss_steps": str(step),
        "ss_seed": str(config.training.seed),
        "ss_resolution": f"({side}, {side})",
        "ss_learning_rate": str(config.optimizer.lr),
        "ss_unet_lr": str(config.optimizer.lr),
        "ss_text_encoder_lr": str(encoder_lr if config.method.train_text_encoder else None),
        "ss_optimizer": config.optimizer.target.replace(":", "."),
        "ss_lr_scheduler": config.schedule.kind,
        "ss_lr_warmup_steps": str(config.schedule.warmup_steps),
        "ss_gradient_accumulation_steps": str(config.training.accumulation),
        "ss_batch_size_per_device": str(config.training.batch_size),
        "ss_max_grad_norm": str(config.training.gradient_clipping),
        "ss_mixed_precision": "no" if precision == "fp32" else precision,
    }
