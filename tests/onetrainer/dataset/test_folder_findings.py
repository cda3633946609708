"""What is wrong with files of a folder: the same in a check, an image check, a plan and a run."""

import codecs
import shutil

import pytest
from PIL import Image

from onetrainer.captions.caption_file import CaptionError
from onetrainer.captions.caption_text import read_caption_text
from onetrainer.checks.dataset import check_images
from onetrainer.checks.image_check import check_dataset
from onetrainer.dataset.dataset import read_dataset
from onetrainer.errors import UserError
from onetrainer.presets.presets import resolve
from tests.each import each
from tests.images import save_captions

CHINESE = ["一个女孩，长发，微笑", "蓝天白云，海边", "猫，沙发", "户外，阳光，树"]
JAPANESE = ["女の子、長い髪、笑顔", "青い空と白い雲", "ソファの上の猫", "屋外、太陽、木"]
RUSSIAN = ["девушка с длинными волосами", "голубое небо", "кошка на диване", "Улица, солнце"]
KOREAN = ["긴 머리 소녀, 웃음", "푸른 하늘과 흰 구름", "소파 위의 고양이", "야외, 햇빛, 나무"]


@pytest.fixture
def folder(tmp_path):
    return save_captions(tmp_path / "images", [f"a cat on chair {number}" for number in range(4)])


def config(folder, **data):
    return resolve({"data": {"folder": str(folder), "resolution": 64, **data}}, source="")


def kinds(folder, **data):
    """The kinds of findings that every surface shows, after it is shown that they agree."""
    made = config(folder, **data)
    found = [one for one in check_dataset(made).findings if "duplicate" not in one.kind]
    checked = check_images(made)
    notes = " ".join(read_dataset(made).notes)
    for one in found:
        texts = [each.what for each in checked if one.what in each.what or one.kind == "unreadable"]
        assert texts, one
        if one.kind != "unreadable":
            assert one.what in notes
    return {one.kind for one in found}


@each(
    ("encoding", "texts", "name"),
    [
        ("gbk", CHINESE, "Chinese in GBK"),
        ("big5", ["一個女孩，長髮", "藍天白雲，海邊"] * 2, "Chinese in Big5"),
        ("cp932", JAPANESE, "Japanese in Shift-JIS"),
        ("euc_jp", JAPANESE, "Japanese in EUC-JP"),
        ("cp949", KOREAN, "Korean in EUC-KR"),
        ("cp1251", RUSSIAN, "Cyrillic in Windows-1251"),
        ("koi8-r", RUSSIAN, "Cyrillic in KOI8-R"),
        ("cp1253", ["κορίτσι με μακριά μαλλιά", "γαλάζιος ουρανός"] * 2, "Greek"),
    ],
)
def test_captions_of_an_older_encoding_are_an_error_that_names_it_once(
    tmp_path, encoding, texts, name
):
    save_captions(tmp_path, [text.encode(encoding) for text in (*texts, "a cat")])
    problems = [one for one in check_images(config(tmp_path)) if one.severity == "error"]
    assert len(problems) == 1
    assert f"as {name}" in problems[0].what
    assert texts[0][:6] in problems[0].what
    with pytest.raises(CaptionError, match=name):  # an edit would save what was misread
        read_caption_text(tmp_path / "0.txt")


@each(
    ("content", "severity"),
    [
        ("café, naïve".encode("cp1252"), "warning"),
        ("café, naïve".encode().decode("cp1252").encode(), "warning"),
        (CHINESE[0].encode().decode("latin-1").encode(), "error"),
        (CHINESE[0].encode("gbk").decode("cp1252").encode(), "error"),
        ("a girl, long hair".encode("utf-16-le"), "error"),
        ("a girl, long hair".encode("utf-16-be"), "error"),
        (CHINESE[0].encode("utf-16-le"), "error"),
    ],
)
def test_a_caption_that_was_misread_is_found_by_how_much_it_matters(folder, content, severity):
    (folder / "0.txt").write_bytes(content)
    found = [one for one in check_images(config(folder)) if "0.txt" in one.what]
    assert severity in {one.severity for one in found}


@each(
    "content",
    [
        *(text.encode() for text in ("ação, não", "Åre älvön öåä", "été", CHINESE[0], RUSSIAN[0])),
        codecs.BOM_UTF8 + "café".encode(),
        "a girl, 女の子".encode("utf-16"),
        "½ × 2 °C … “quoted” — dash".encode(),
        "a cat\u2028on a sofa".encode(),
    ],
)
def test_a_caption_in_unicode_is_no_finding_in_any_language(folder, content):
    (folder / "0.txt").write_bytes(content)
    assert kinds(folder) == set()


@each(
    "name",
    ["a.JPG_large", "a.jpg!d", "a", "a.mpo", "a.jpg.1", "a.pjpeg", "a.jfi", "a.bin", "a.cr3"],
)
def test_an_image_under_another_name_is_named_and_not_used(folder, name):
    Image.new("RGB", (64, 64)).save(folder / name, "JPEG")
    assert kinds(folder) == {"unused-image"}
    assert len(read_dataset(config(folder)).items) == 4


def test_a_folder_whose_images_all_have_other_names_says_so(tmp_path):
    Image.new("RGB", (64, 64)).save(tmp_path / "photo", "JPEG")
    with pytest.raises(UserError, match=r"photo \(a JPEG image"):
        read_dataset(config(tmp_path))


@each(
    ("content", "noun"),
    [
        (b"\0\0\0\x24ftypheic\0\0\0\0mif1heic" + b"\0" * 99, "a HEIC photo"),
        (b"\xff\x0a" + b"\x01" * 99, "a JPEG XL image"),
        (b"<!DOCTYPE html><html><body>403", "a web page"),
        (b"\xef\xbb\xbf\n<html><body>", "a web page"),
        (b'<?xml version="1.0"?><svg xmlns="x"/>', "an SVG drawing"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"PK\x03\x04" + b"\x14" * 99, "an archive"),
        (b"\0\0\0\x18ftypmp42" + b"\0" * 99, "a video"),
        (b"8BPS\0\1" + b"\0" * 99, "a Photoshop document"),
        (b"FUJIFILMCCD-RAW " + b"\0" * 99, "a camera's raw photo"),
        (b'{"error": "not found"}', "a website's message"),
        (b"\0" * 2000, "nothing but zeros"),
    ],
)
def test_what_is_no_image_is_named_by_its_first_bytes(folder, content, noun):
    (folder / "0.png").write_bytes(content)
    (finding,) = check_dataset(config(folder)).findings[:1]
    assert (finding.kind, finding.path.name) == ("unreadable", "0.png")
    assert noun in finding.what
    assert kinds(folder) >= {"unreadable"}


@each(
    ("caption", "kind"),
    [
        ("...", "caption-nothing"),
        ("TODO", "caption-nothing"),
        ("your caption here", "caption-nothing"),
        ("0.png", "caption-nothing"),
        ("sks", "caption-nothing"),
        ("<html><body>403 Forbidden", "caption-nothing"),
        ("a cat, <lora:foo:0.8>", "caption-syntax"),
        ("a cat BREAK a dog", "caption-syntax"),
        ("a (cat:1.2)", "caption-syntax"),
        ("a [cat:dog:0.5]", "caption-syntax"),
        ("a [cat|dog]", "caption-syntax"),
        ("a {red|blue} hat", "caption-syntax"),
        ("a cat --ar 16:9", "caption-syntax"),
    ],
)
def test_a_caption_that_means_nothing_is_found(folder, caption, kind):
    (folder / "0.txt").write_text(caption)
    assert kinds(folder, trigger="sks") == {kind}


@each(
    "caption",
    [
        *(
            r"hatsune miku \(vocaloid\), 1girl",
            "a cat (sitting)",
            "time: 12:30",
            "cat ^_^, :)",
            "7",
        ),
        *("<my-token> on grass", "cat", "[a sign]", "BREAK DANCE", "a photo of 50 people", "a_b c"),
    ],
)
def test_a_caption_that_only_looks_odd_is_no_finding(folder, caption):
    (folder / "0.txt").write_text(caption)
    assert kinds(folder) == set()


def test_weights_and_choices_that_are_read_are_no_finding(folder):
    (folder / "0.txt").write_text("a (cat:1.2) in a {red|blue} hat")
    assert kinds(folder, caption_weights="a1111", captions={"wildcards": True}) == set()


def test_the_same_caption_for_all_is_said_of_the_folder(tmp_path):
    save_captions(tmp_path, ["a cat"] * 5)
    assert kinds(tmp_path) == {"caption-same"}


@each(
    ("level", "found"),
    [(None, set()), (0, {"mask-uniform"}), (255, {"mask-uniform"}), (128, {"mask-uniform"})],
)
def test_a_mask_without_a_shape_is_found(folder, level, found):
    for number in range(4):
        Image.linear_gradient("L").resize((64, 64)).save(folder / f"{number}-masklabel.png")
    if level is not None:
        Image.new("L", (64, 64), level).save(folder / "0-masklabel.png")
    assert kinds(folder, masks="files") == found


def test_masks_that_are_not_used_and_those_of_no_image_are_found(folder, tmp_path):
    mask = Image.linear_gradient("L").resize((64, 64))
    mask.save(folder / "0-masklabel.png")
    assert kinds(folder) == {"mask-unused"}
    apart = tmp_path / "masks"
    apart.mkdir()
    for name in ("0", "1", "2", "3", "gone"):
        mask.save(apart / f"{name}.png")
    assert kinds(folder, masks="files", mask_folder=str(apart)) >= {"orphan"}


@each(("linked", "link"), [("b.png", "a.png"), ("a.png", "b.png")])
def test_the_link_is_said_to_be_the_link(tmp_path, linked, link):
    Image.linear_gradient("L").save(tmp_path / linked)
    (tmp_path / link).symlink_to(linked)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name} cat")
    (found,) = [one for one in check_dataset(config(tmp_path)).findings if one.other]
    assert (found.path.name, found.what) == (link, f"link to {linked}")


def test_findings_are_gone_with_the_files(folder):
    (folder / "0.txt").write_bytes(CHINESE[0].encode("gbk"))
    assert kinds(folder) == {"caption-encoding"}
    shutil.rmtree(folder)
    save_captions(folder, ["a cat", "a dog"])
    assert kinds(folder) == set()
