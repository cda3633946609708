"""The first steps of a run against a loop written by hand over plain diffusers and peft."""

import json

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from peft import LoraConfig, inject_adapter_in_model
from PIL import Image
from safetensors.torch import load_file
from transformers import CLIPTextModel, CLIPTokenizer

from modules import seeds
from modules.families.registry import load_family
from modules.jobs.train import train
from modules.methods.adapters.adapters import Adapters
from onetrainer.config.methods.low_rank import Lora as LoraSection
from onetrainer.config.run.model import Model
from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.dataset import read_dataset
from onetrainer.presets.presets import resolve
from onetrainer.run.events import Progress
from tests import images, runs, tiny
from tests.close import close, near
from tests.each import each

STEPS, SEED, RANK, ALPHA, LR = 3, 5, 4, 2.0, 1e-3
CHANGES = {
    "training": {"steps": STEPS, "batch_size": 2, "seed": SEED, "gradient_clipping": 1.0},
    "method": {"rank": RANK, "alpha": ALPHA, "targets": "attn"},
    "optimizer": {"lr": LR},
    "schedule": {"kind": "constant", "warmup_steps": 0},
    "data": {"captions": {"dropout": 0.0}},
    "sampling": {"every": 0, "at_start": False, "at_end": False},
}


@torch.no_grad()
def encoded(base, items):
    """Each image's posterior and each caption's hidden states, by diffusers and transformers."""
    vae = AutoencoderKL.from_pretrained(base / "vae")
    encoder = CLIPTextModel.from_pretrained(base / "text_encoder")
    tokenizer = CLIPTokenizer.from_pretrained(base / "tokenizer")
    posteriors, hidden = [], []
    for item in items:
        pixels = np.asarray(Image.open(item.path).convert("RGB"), dtype=np.float32) / 127.5 - 1
        image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        posteriors.append(vae.encode(image).latent_dist)
        tokens = tokenizer(
            item.caption, padding="max_length", max_length=77, return_tensors="pt"
        ).input_ids
        hidden.append(encoder(tokens).last_hidden_state)
    return posteriors, hidden, vae.config.scaling_factor


def with_peft(base):
    """The UNet with peft's adapters, which start from our down matrices."""
    unet = UNet2DConditionModel.from_pretrained(base / "unet")
    unet.requires_grad_(False)
    targets = ["to_q", "to_k", "to_v", "to_out.0"]
    inject_adapter_in_model(LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets), unet)
    ours = Adapters.attach(
        load_family(Model(path=str(base)), compute_dtype=torch.float32, device=torch.device("cpu")),
        LoraSection(rank=RANK, alpha=ALPHA, targets="attn"),
        seed=SEED,
    ).state_dict()
    adapters = {name: weight for name, weight in unet.named_parameters() if weight.requires_grad}
    for name, weight in adapters.items():
        layer, kind = name.split(".lora_")
        with torch.no_grad():
            key = f"lora_unet_{layer.replace('.', '_')}.lora_{kind.split('_')[0]}"
            key = key.replace("lora_A", "lora_down.weight").replace("lora_B", "lora_up.weight")
            weight.copy_(ours[key.split(".default")[0]])
    assert len(adapters) == len(ours)
    return unet, list(adapters.values())


def standard_noise(purpose, step, position, shape):
    return torch.randn(shape, generator=seeds.generator(SEED, purpose, step, position))


def reference_losses(base, config):
    """Losses of the steps, each image computed alone and weighted equally."""
    sizes = {"batch_size": config.training.batch_size, "seed": SEED}
    sizes |= {"accumulation": config.training.accumulation}
    full = config.training.batch_size * config.training.accumulation
    dataset = read_dataset(config)
    items = dataset.items
    posteriors, hidden, scale = encoded(base, items)
    unet, weights = with_peft(base)
    scheduler = DDPMScheduler.from_config(
        {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
    )
    optimizer = torch.optim.AdamW(weights, lr=LR, weight_decay=0.01)
    portions = concept_slices(dataset, is_cached=True)
    plan = BatchPlan(portions, **sizes)
    losses = []
    for step in range(STEPS):
        losses.append(0.0)
        images = plan.at(step).images
        for p, i in enumerate(shown.item for shown in images):
            mean, std = posteriors[i].mean, posteriors[i].std
            latents = (mean + std * standard_noise("latent", step, p, mean.shape[1:])) * scale
            noise = standard_noise("noise", step, p, mean.shape[1:])[None]
            generator = seeds.generator(SEED, "timestep", step, p)
            timesteps = torch.randint(0, 1000, (1,), generator=generator)
            noisy = scheduler.add_noise(latents, noise, timesteps)
            loss = ((unet(noisy, timesteps, hidden[i]).sample - noise) ** 2).mean()
            (loss / full).backward()
            losses[-1] += float(loss.detach()) / len(images)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return losses


@each("accumulation", [1, 3])
def test_the_first_losses_equal_those_of_a_loop_over_diffusers_and_peft(
    config, tmp_path, accumulation
):
    changes = CHANGES
    if accumulation > 1:  # then also of several shapes
        folder = images.folder(tmp_path / "p", [(64, 64), (88, 48), (48, 88), (64, 64), (88, 48)])
        changes |= {"data": {**CHANGES["data"], "folder": str(folder)}}
        changes |= {"training": {**CHANGES["training"], "accumulation": accumulation}}
    folder = runs.new_run(config, **changes)
    assert train(folder) == 0
    ours = [event.loss for event in runs.events_of(folder) if isinstance(event, Progress)]
    resolved = resolve(json.loads(folder.config.read_text()), source="the run")
    expected = reference_losses(config.parent / "base", resolved)
    assert len(set(expected)) == STEPS
    assert ours == near(expected)


def test_accumulation_gives_the_update_of_one_big_batch(config, tmp_path):
    images = tiny.write_images(
        tmp_path / "p", ("a red square", "so many words " * 60, "green", "night " * 80)
    )
    losses, weights = [], []
    for batch_size, accumulation in ((4, 1), (1, 4)):
        training = {"steps": 2, "batch_size": batch_size, "accumulation": accumulation}
        folder = runs.new_run(
            config,
            **CHANGES
            | {
                "training": {**CHANGES["training"], **training},
                "method": {**CHANGES["method"], **tiny.encoders(True)},
                "data": {"folder": str(images)},
                # A large epsilon: Adam would turn the rounding of a zero gradient into a step.
                "optimizer": {"lr": LR, "eps": 1e-3},
            },
        )
        assert train(folder) == 0
        losses.append([e.loss for e in runs.events_of(folder) if isinstance(e, Progress)])
        weights.append(load_file(folder.output / "my-lora.safetensors"))
    assert losses[1] == near(losses[0])
    for name, value in weights[0].items():
        close(weights[1][name], value)
