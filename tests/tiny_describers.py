"""Models that describe images, a thousand times smaller, in folders as people download them."""

from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import (
    BartConfig,
    BlipConfig,
    BlipForConditionalGeneration,
    BlipImageProcessorPil,
    BlipProcessor,
    CLIPImageProcessorPil,
    CLIPSegConfig,
    CLIPSegForImageSegmentation,
    CLIPSegProcessor,
    Florence2Config,
    Florence2ForConditionalGeneration,
    Florence2Processor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaImageProcessorPil,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
    ViTImageProcessorPil,
)

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<video>", "<begin>", "<end>")
WORDS = "a cat dog red blue sits on the sofa what is this describe image in it with shown"
ASKED = "what is this"
LAYERS = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
}  # fmt: skip
VISION = {**LAYERS, "image_size": 32, "patch_size": 8}
CHAT = (
    "{% for m in messages %}USER: {% for c in m.content %}{% if c.type == 'image' %}<image> "
    "{% else %}{{ c.text }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %} ANSWER:{% endif %}"
)
PIXELS = {"size": {"height": 32, "width": 32}}


def tokenizer(**more: object) -> PreTrainedTokenizerFast:
    """A tokenizer of a few words."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS.split()))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", **more,
        extra_special_tokens={"image_token": "<image>", "video_token": "<video>"},
    )  # fmt: skip


def _save(network: nn.Module, folder: Path) -> None:
    """Save a network with weights so large that what it finds depends on the image."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.4, generator=generator)
    network.save_pretrained(folder)


IDS = {
    "vocab_size": len(SPECIAL) + len(WORDS.split()),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def save_blip(folder: Path) -> None:
    """BLIP."""
    text = {
        **LAYERS, **IDS, "sep_token_id": 2, "encoder_hidden_size": 16, "projection_dim": 16,
        "max_position_embeddings": 64,
    }  # fmt: skip
    config = BlipConfig(text_config=text, vision_config=VISION, projection_dim=16)
    _save(BlipForConditionalGeneration(config), folder)
    BlipProcessor(BlipImageProcessorPil(**PIXELS), tokenizer()).save_pretrained(folder)


def save_florence(folder: Path) -> None:
    """Florence-2."""
    text = BartConfig(
        **IDS, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        max_position_embeddings=64, decoder_start_token_id=2, forced_bos_token_id=None,
        forced_eos_token_id=None,
    )  # fmt: skip
    stages = {"depths": (1, 1), "embed_dim": (8, 16), "num_heads": (2, 2), "num_groups": (2, 2)}
    patches = {
        "patch_size": (7, 3), "patch_stride": (4, 2), "patch_padding": (3, 1),
        "patch_prenorm": (False, True),
    }  # fmt: skip
    vision = {**stages, **patches, "window_size": 4, "projection_dim": 16}
    config = Florence2Config(text_config=text.to_dict(), vision_config=vision, image_token_id=4)
    _save(Florence2ForConditionalGeneration(config), folder)
    images = CLIPImageProcessorPil(**PIXELS, crop_size=PIXELS["size"])
    images.image_seq_length = 17
    Florence2Processor(images, tokenizer()).save_pretrained(folder)


def save_llava(folder: Path, *, chats: bool = True) -> None:
    """LLaVA, with a template of conversations or without."""
    text = {**LAYERS, **IDS, "model_type": "llama", "num_key_value_heads": 2}
    vision = {**VISION, "model_type": "clip_vision_model", "projection_dim": 16}
    config = LlavaConfig(
        text_config=text, vision_config=vision, image_token_id=4, image_seq_length=16
    )
    _save(LlavaForConditionalGeneration(config), folder)
    LlavaProcessor(
        LlavaImageProcessorPil(size={"shortest_edge": 32}, crop_size=PIXELS["size"]), tokenizer(),
        patch_size=8, vision_feature_select_strategy="default", num_additional_image_tokens=1,
        chat_template=CHAT if chats else None,
    ).save_pretrained(folder)  # fmt: skip


def save_qwen(folder: Path) -> None:
    """Qwen2-VL, whose processor has a part for videos, which is saved as little as it is needed."""
    rope = {"mrope_section": [2, 1, 1], "rope_type": "default", "rope_theta": 10000.0}
    text = {**LAYERS, **IDS, "num_key_value_heads": 2, "rope_parameters": rope}
    vision = {
        "depth": 1, "embed_dim": 16, "num_heads": 2, "hidden_size": 16, "patch_size": 8,
        "mlp_ratio": 2,
    }  # fmt: skip
    config = Qwen2VLConfig(
        text_config=text, vision_config=vision, image_token_id=4, video_token_id=5,
        vision_start_token_id=6, vision_end_token_id=7,
    )  # fmt: skip
    _save(Qwen2VLForConditionalGeneration(config), folder)
    Qwen2VLImageProcessorPil(
        patch_size=8, merge_size=2, min_pixels=256, max_pixels=4096
    ).save_pretrained(folder)
    chat = CHAT.replace("<image>", "<begin> <image> <end>")
    tokenizer(chat_template=chat).save_pretrained(folder)


def save_clipseg(folder: Path) -> None:
    """CLIPSeg."""
    vision = {**VISION, "num_hidden_layers": 3}
    text = {**LAYERS, **IDS, "max_position_embeddings": 16}
    config = CLIPSegConfig(
        text_config=text, vision_config=vision, projection_dim=16, extract_layers=(0, 1, 2),
        reduce_dim=8, decoder_num_attention_heads=2, decoder_intermediate_size=16,
    )  # fmt: skip
    _save(CLIPSegForImageSegmentation(config), folder)
    CLIPSegProcessor(ViTImageProcessorPil(**PIXELS), tokenizer()).save_pretrained(folder)


TAGS = (
    ("general", "9"), ("explicit", "9"), ("blue_sky", "0"), ("green_leaves", "0"),
    ("red_hair", "0"), ("^_^", "0"), ("someone_(series)", "4"),
)  # fmt: skip
"""Of the tagger: its outputs are 0.9, 0.2, then the share of blue, of green and of red in an image,
0.5 and 0.9."""


def save_tagger(folder: Path, side: int = 8) -> None:
    """A WD tagger in the layout of the real ones, whose scores are known: see `TAGS`."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{n},{name},{category},1" for n, (name, category) in enumerate(TAGS)]
    (folder / "selected_tags.csv").write_text("\n".join(["tag_id,name,category,count", *rows]))
    constants = {
        "scale": (255.0,), "before": (0.9, 0.2), "after": (0.5, 0.9), "once": (1.0,),
    }  # fmt: skip
    initializers = [
        helper.make_tensor(name, TensorProto.FLOAT, (1, len(v)), v) for name, v in constants.items()
    ]
    nodes = [
        helper.make_node("ReduceMean", ["image", "axes"], ["mean"], keepdims=0),
        helper.make_node("Div", ["mean", "scale"], ["colors"]),
        helper.make_node("ReduceMean", ["colors", "last"], ["gray"], keepdims=1),
        helper.make_node("Mul", ["gray", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "before"], ["first"]),
        helper.make_node("Add", ["nothing", "after"], ["rest"]),
        helper.make_node("Concat", ["first", "colors", "rest"], ["scores"], axis=1),
    ]
    initializers += [
        helper.make_tensor("axes", TensorProto.INT64, (2,), (1, 2)),
        helper.make_tensor("last", TensorProto.INT64, (1,), (1,)),
        helper.make_tensor("zero", TensorProto.FLOAT, (1, 1), (0.0,)),
    ]
    _save_onnx(folder / "model.onnx", nodes, initializers, ("N", side, side, 3), ("N", len(TAGS)))


def save_background(file: Path, side: int = 16) -> None:
    """A network like U²-Net whose mask is how red the normalized image is, as a probability."""
    file.parent.mkdir(parents=True, exist_ok=True)
    nodes = [
        helper.make_node("Slice", ["image", "zero", "one", "axis"], ["red"]),
        helper.make_node("Sigmoid", ["red"], ["mask"]),
    ]
    initializers = [
        helper.make_tensor("zero", TensorProto.INT64, (1,), (0,)),
        helper.make_tensor("one", TensorProto.INT64, (1,), (1,)),
        helper.make_tensor("axis", TensorProto.INT64, (1,), (1,)),
    ]
    _save_onnx(file, nodes, initializers, (1, 3, side, side), (1, 1, side, side), output="mask")


def _save_onnx(file, nodes, initializers, image, shape, output="scores") -> None:
    graph = helper.make_graph(
        nodes, "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, image)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        initializers,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, file)
