"""The networks of the family: a transformer over patches, and an encoder of bytes."""

import torch
from torch import nn


class Block(nn.Module):
    """Attention to the image and its text, and a feed-forward layer."""

    def __init__(self, width):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, image, text):
        context = torch.cat([image, text], dim=1)
        scores = self.to_q(image) @ self.to_k(context).transpose(1, 2) / image.shape[-1] ** 0.5
        image = image + scores.softmax(-1) @ self.to_v(context)
        return image + self.fc2(torch.tanh(self.fc1(image)))


class Transformer(nn.Module):
    """Predicts the velocity of latents, (B, C, h, w)."""

    def __init__(self, channels, width, text_width, depth):
        super().__init__()
        self.patches = nn.Linear(channels, width)
        self.time, self.text = nn.Linear(1, width), nn.Linear(text_width, width)
        self.attentions = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, channels)

    @classmethod
    def from_config(cls, config):
        return cls(config["in_channels"], config["width"], config["text_width"], config["depth"])

    def forward(self, latents, times, text):
        batch, channels, height, width = latents.shape
        image = self.patches(latents.flatten(2).transpose(1, 2))  # (B, h * w, D)
        image = image + self.time(times.view(-1, 1, 1).to(image.dtype) / 1000)
        text = self.text(text)
        for block in self.attentions:
            image = block(image, text)
        return self.out(image).transpose(1, 2).reshape(batch, channels, height, width)


class ByteEncoder(nn.Module):
    """Encodes bytes, (B, T), to (B, T, D)."""

    def __init__(self, width):
        super().__init__()
        self.table = nn.Embedding(256, width)
        self.fc1 = nn.Linear(width, width)

    @classmethod
    def from_config(cls, config):
        return cls(config["width"])

    def forward(self, ids):
        return torch.tanh(self.fc1(self.table(ids)))
