"""What a file is by its first bytes, whatever its name says."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

HEAD = 1024
"""Number of bytes that tell a kind of file."""

SAVE = "save it as PNG or JPEG"
_AGAIN = "download it again from the image's own address"


class FileKind(NamedTuple):
    """A kind of file.

    noun: With its article, such as "a JPEG image". remedy: What to do with one among images.
    suffix: What its name ends in, if training can read it; "" otherwise. is_image: Whether it shows
    a picture in any program.
    """

    noun: str
    remedy: str = SAVE
    suffix: str = ""
    is_image: bool = True

    @property
    def is_container(self) -> bool:
        """Whether it is a file of other data than text, such as an archive."""
        return self in (_VIDEO, _ARCHIVE, _DOCUMENT)


def _readable(noun: str, suffix: str) -> FileKind:
    return FileKind(noun, f"rename it, to a name that ends in {suffix}", suffix)


def _other(noun: str, remedy: str) -> FileKind:
    return FileKind(noun, remedy, is_image=False)


_TIFF = _readable("a TIFF image", ".tif")
_AVIF = _readable("an AVIF image", ".avif")
_HEIC = FileKind("a HEIC photo")
_RAW = FileKind("a camera's raw photo", "develop it, and save it as PNG or JPEG")
_JXL = FileKind("a JPEG XL image")
_JP2 = FileKind("a JPEG 2000 image")
_PSD = FileKind("a Photoshop document")
_SVG = FileKind("an SVG drawing")
_VIDEO = _other("a video", "save single frames of it as PNG or JPEG")
_ARCHIVE = _other("an archive", "unpack it")
WEB_PAGE = _other("a web page, such as a website's error message", _AGAIN)
_MESSAGE = _other("a website's message, not its image", _AGAIN)
LFS_POINTER = _other("a Git LFS pointer, not the image itself", "get the images with git lfs pull")
_ZEROS = _other("nothing but zeros, as after an interrupted copy", "copy it again")
_TEXT = _other("text", "replace it by the image")
_DOCUMENT = _other("a PDF document", "save its pages as PNG or JPEG")

# Beginnings of files. Sources: the formats' specifications, as listed by the PRONOM registry.
_BEGINNINGS: Mapping[bytes, FileKind] = {
    b"\xff\xd8\xff": _readable("a JPEG image", ".jpg"),
    b"\x89PNG\r\n\x1a\n": _readable("a PNG image", ".png"),
    b"GIF87a": _readable("a GIF image", ".gif"),
    b"GIF89a": _readable("a GIF image", ".gif"),
    b"II*\0\x10\0\0\0CR": _RAW,
    b"II*\0": _TIFF,
    b"MM\0*": _TIFF,
    b"IIRO": _RAW,
    b"IIRS": _RAW,
    b"MMOR": _RAW,
    b"IIU\0": _RAW,
    b"FUJIFILMCCD-RAW": _RAW,
    b"FOVb": _RAW,
    b"II\x1a\0\0\0HEAPCCDR": _RAW,
    b"\0MRM": _RAW,
    b"\xff\x0a": _JXL,
    b"\0\0\0\x0cJXL \r\n\x87\n": _JXL,
    b"\0\0\0\x0cjP  \r\n\x87\n": _JP2,
    b"\xff\x4f\xff\x51": _JP2,
    b"8BPS": _PSD,
    b"gimp xcf": FileKind("a GIMP document"),
    b"CSFCHUNK": FileKind("a Clip Studio document"),
    b"\x76\x2f\x31\x01": FileKind("an OpenEXR image"),
    b"#?RADIANCE": FileKind("a Radiance HDR image"),
    b"#?RGBE": FileKind("a Radiance HDR image"),
    b"DDS ": FileKind("a DDS texture"),
    b"qoif": FileKind("a QOI image"),
    b"\0\0\1\0": FileKind("a Windows icon"),
    b"icns": FileKind("a Mac icon"),
    b"PK\x03\x04": _ARCHIVE,
    b"PK\x05\x06": _ARCHIVE,
    b"Rar!\x1a\x07": _ARCHIVE,
    b"7z\xbc\xaf\x27\x1c": _ARCHIVE,
    b"\x1f\x8b\x08": _ARCHIVE,
    b"BZh": _ARCHIVE,
    b"\xfd7zXZ\0": _ARCHIVE,
    b"\x28\xb5\x2f\xfd": _ARCHIVE,
    b"\x1a\x45\xdf\xa3": _VIDEO,
    b"FLV\x01": _VIDEO,
    b"\0\0\x01\xba": _VIDEO,
    b"\0\0\x01\xb3": _VIDEO,
    b"OggS": _VIDEO,
    b"0&\xb2u\x8ef\xcf\x11": _VIDEO,
    b"%PDF-": _DOCUMENT,
    b"\0\x05\x16\x07": _other("what a Mac notes of a file, not the file", "remove it"),
    b"version https://git-lfs": LFS_POINTER,
    b"version https://hawser": LFS_POINTER,
}
_LONGEST = max(map(len, _BEGINNINGS))

# Brands of files that begin with an "ftyp" box. Source: ISO/IEC 14496-12, and mp4ra.org.
_HEIC_BRANDS = frozenset(
    [b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"]
)
_BITMAP_HEADERS = frozenset([12, 16, 40, 52, 56, 64, 108, 124])
"""Sizes of the header that follows "BM" and 12 bytes, in all versions of bitmaps."""

_SVG_TAG = re.compile(rb"<svg[\s>]", re.IGNORECASE)
_HTML_TAG = re.compile(rb"<(!doctype html|html|head|body|title|script|meta)[\s>]", re.IGNORECASE)
_NETPBM = re.compile(rb"P[1-7]\s+(#[^\n]*\n\s*)*(\d+\s+\d|WIDTH)")
_RAW_SUFFIXES = frozenset(
    [
        *(".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".orf", ".rw2"),
        *(".raf", ".pef", ".ptx", ".srw", ".x3f", ".3fr", ".erf", ".mef", ".mos", ".mrw", ".rwl"),
        *(".iiq", ".kdc", ".dcr"),
    ]
)


def kind_of_file(path: Path) -> FileKind | None:
    """Return what a file is by its first bytes; None if that is not known, or not to be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return None
    kind = kind_of(head)
    # Raw photos of most cameras are TIFF files inside.
    return _RAW if kind is _TIFF and path.suffix.lower() in _RAW_SUFFIXES else kind


def kind_of(head: bytes) -> FileKind | None:
    """Return what a file is by its first `HEAD` bytes; None if they are of no known kind."""
    for beginning in _beginnings(head):
        if (kind := _BEGINNINGS.get(beginning)) is not None:
            return kind
    if head[:4] == b"RIFF":
        kinds = {b"WEBP": _readable("a WebP image", ".webp"), b"AVI ": _VIDEO}
        return kinds.get(head[8:12])
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BITMAP_HEADERS:
        return _readable("a BMP image", ".bmp")
    if head[4:8] == b"ftyp":
        return _kind_of_brands(head)
    if head[4:8] in (b"moov", b"mdat", b"wide", b"free"):
        return _VIDEO
    if _NETPBM.match(head):
        return FileKind("a Netpbm image")
    return _kind_of_text(head)


def _beginnings(head: bytes) -> Iterator[bytes]:
    """Yield the beginnings of a file, the longest first."""
    for length in range(min(_LONGEST, len(head)), 1, -1):
        yield head[:length]


def _kind_of_brands(head: bytes) -> FileKind:
    size = min(int.from_bytes(head[:4], "big"), len(head))
    major = head[8:12]
    brands = {major, *(head[at : at + 4] for at in range(16, size - 3, 4))}
    if brands & {b"avif", b"avis"}:
        return _AVIF
    if brands & _HEIC_BRANDS:
        return _HEIC
    return _RAW if major == b"crx " else _VIDEO


def _kind_of_text(head: bytes) -> FileKind | None:
    if head and not head.strip(b"\0"):
        return _ZEROS
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin[:1] == b"<":
        if _HTML_TAG.match(begin) or (not _SVG_TAG.search(begin) and _HTML_TAG.search(begin)):
            return WEB_PAGE
        if _SVG_TAG.search(begin):
            return _SVG
        if begin.startswith((b"<?xml", b"<Error")):
            return _MESSAGE
    if begin.startswith((b'{"', b"{\n", b'[{"')):
        return _MESSAGE
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < HEAD else "ignore")
    except UnicodeDecodeError:
        return None
    is_text = bool(text.strip()) and all(sign.isprintable() or sign in "\t\r\n" for sign in text)
    return _TEXT if is_text else None
