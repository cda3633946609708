"""Recognize texts that were written in an older encoding, or misread once and saved again."""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

ENOUGH = 0.9
"""Part of a text's foreign signs that have to be usual ones for an encoding to be meant."""

SAMPLE = 200
"""Texts of a folder that are tried with each encoding."""

_MOST_READINGS = 3
_MOST_FOREIGN = 0.6
"""Part of the letters of words with letters beyond ASCII that these are, in Latin languages."""

# What Windows reads the bytes 0x80 to 0x9f as, where cp1252 says anything.
_SIGNS = "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0))
_BEYOND_BYTES = re.compile(f"[^\x00-\xff{_SIGNS}]")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_RUN = re.compile(rb"[\x80-\xff]{2,}")
_HIGH = re.compile(rb"[\x80-\xff]")

# The commonest characters of each language, in captions above all.
_CHINESE = frozenset(
    "的一是不了人在有我他这個个們中来上大为和国地到以时要就出会可你对生能而子那得着下自年过后里用"
    "道行所家种成方多去如同动面起看天分好小心她前开只想日长長手体美相高间頭头新身西光白黑红紅蓝藍"
    "绿綠黄黃色花草树樹云雲海山水火石路门門窗房室內内外户戶站坐穿戴笑脸臉眼发髮髪衣裙帽鞋猫貓狗鸟"
    "鳥鱼魚马馬女男孩少图圖片照背景阳陽夜晚星月雨雪风風城市街车車食物真服饰像画畫微短沙发椅桌书書"
)
_KOREAN = frozenset(
    "이다는의에고을가하지리한로기사서도인시나자스어아들일대여그보구라해정원수장부전성유공상제소주비미"
    "오만세조신화국계연모동관발용안우생개바르치내음물진마위문양녀머긴은색옷눈웃앉있검빨파란흰꽃림과"
)
_LETTERS: Mapping[str, tuple[str, str]] = {
    # All letters of a script, and the ten or so that make up most of its texts.
    "Cyrillic": ("\u0400-\u045f\u0490\u0491", "оеаинтсрвлкмдпуіы"),
    "Greek": ("\u0386-\u03ce", "αοιετσνηυρπκμςλόίά"),
    "Hebrew": ("\u05d0-\u05ea", "יוהלאמרתבנשד"),
    "Arabic": ("\u060c-\u06ff", "اليمنروتبةعدسفحكق"),
    "Thai": ("\u0e01-\u0e5b", "านรอกเงมยลวด่้ีสทตัิ"),
}
_PUNCTUATION = "\u3000-\u3003\u3008-\u3011\uff01-\uff5e\u2010-\u2026\u00b7\u30fb\u00ab\u00bb\u2116"


class Reading(NamedTuple):
    """A text as another encoding reads it. name: The language and the encoding, for people."""

    name: str
    text: str


class _Candidate(NamedTuple):
    """An encoding. score: Says from 0 to 1 how much the foreign signs of a text are like its own.

    expected: The least score of a text in it.
    """

    encoding: str
    name: str
    score: Callable[[str], float]
    expected: float


def misread(content: bytes) -> bytes | None:
    """Return the bytes of a text that is not read as it was written; None if all seems well.

    That are texts in another encoding than UTF-8, and texts in UTF-8 that were taken for Windows'
    Latin letters once, whether they had been in UTF-8 or not.
    """
    if content.isascii() and b"\0" not in content:
        return None
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE)):
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content
    if "\0" in text:
        return content
    if text.isascii() or _BEYOND_BYTES.search(text):
        return None
    before = _as_bytes(text)
    is_known = _is_utf8(before) or (not is_western(before) and readings([before]))
    return before if is_known else None


def is_western(content: bytes) -> bool:
    """Return whether bytes may be of a language in Latin letters, with few others in a row."""
    high = len(_HIGH.findall(content))
    in_a_row = sum(map(len, _RUN.findall(content)))
    in_words = sum(map(len, _WORD.findall(content)))
    is_mixed = in_a_row < high / 2 or high < _MOST_FOREIGN * in_words
    return b"\0" not in content and is_mixed


def readings(texts: Sequence[bytes]) -> list[Reading]:
    """Return how texts of one encoding may have been meant, the likeliest first, the texts joined.

    Empty if no encoding makes sense of nearly all of them.
    """
    found = []
    for candidate in _CANDIDATES:
        decoded = [_decoded(content, candidate.encoding) for content in texts[:SAMPLE]]
        known = [text for text in decoded if text is not None]
        text = "\n".join(known)
        score = candidate.score(text) if len(known) >= ENOUGH * len(decoded) else 0.0
        if score >= candidate.expected:
            found.append((score / candidate.expected, Reading(candidate.name, text)))
    found.sort(key=lambda each: -each[0])
    return [reading for _, reading in found[:_MOST_READINGS]]


def encoding_of(content: bytes) -> str:
    """Return what a text may be in that is no readable text as it is; "" if that is not known."""
    before = misread(content)
    found = readings([before]) if before is not None and not is_western(before) else []
    return found[0].name if found else ""


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _is_utf8(content: bytes) -> bool:
    try:
        return not content.decode("utf-8").isascii()
    except UnicodeDecodeError:
        return False


def _as_bytes(text: str) -> bytes:
    """Return the bytes that Windows, or else Latin-1, reads as a text."""
    return b"".join(
        sign.encode("cp1252") if sign in _SIGNS else sign.encode("latin-1") for sign in text
    )


def _share(part: str, text: str) -> float:
    return len(part) / len(text) if text else 0.0


def _foreign(text: str) -> str:
    return "".join(sign for sign in text if not sign.isascii())


def _east_asian(own: str, common: Callable[[str], bool]) -> Callable[[str], float]:
    """Return the score of a script: the part of its usual signs, if there are hardly others."""
    pattern = re.compile(f"[{own}{_PUNCTUATION}]")
    punctuation = re.compile(f"[{_PUNCTUATION}]")

    def score(text: str) -> float:
        foreign = _foreign(text)
        if len(pattern.findall(foreign)) < ENOUGH * len(foreign):
            return 0.0
        words = punctuation.sub("", foreign)
        return _share("".join(filter(common, words)), words)

    return score


def _alphabet(script: str) -> Callable[[str], float]:
    """Return the score of an alphabet: the part of its commonest letters, most in lower case."""
    own, common = _LETTERS[script]
    pattern, letters = re.compile(f"[{own}{_PUNCTUATION}]"), re.compile(f"[{own}]")

    def score(text: str) -> float:
        foreign = _foreign(text)
        words = "".join(letters.findall(foreign))
        if len(pattern.findall(foreign)) < ENOUGH * len(foreign) or not words:
            return 0.0
        if words.lower() != words and sum(map(str.islower, words)) < len(words) / 2:
            return 0.0  # as letters of one Cyrillic encoding look in another
        return _share("".join(sign for sign in words if sign in common), words)

    return score


def _wide(text: str) -> float:
    """Return how much a text is like one in UTF-16: letters of few scripts, nothing unassigned."""
    usual = re.findall(r"[\n\r\t -~\u00a1-\u024f\u0400-\u045f\u3000-\u30ff\uff00-\uff5e]", text)
    if len(usual) == len(text):
        return 1.0
    return max(_hanzi(text), _hangul(text))


_hanzi = _east_asian("\u4e00-\u9fff", _CHINESE.__contains__)
_hangul = _east_asian("\uac00-\ud7a3", _KOREAN.__contains__)
_kana = _east_asian("\u3041-\u30ff\u4e00-\u9fff", lambda sign: "\u3041" <= sign <= "\u30ff")

_CANDIDATES = (
    _Candidate("utf-8", "UTF-8, read as Windows text once", lambda _: 1.0, 0.1),
    _Candidate("utf-16-le", "UTF-16 without its mark", _wide, 0.25),
    _Candidate("utf-16-be", "UTF-16 without its mark", _wide, 0.25),
    _Candidate("gb18030", "Chinese in GBK", _hanzi, 0.25),
    _Candidate("cp950", "Chinese in Big5", _hanzi, 0.25),
    _Candidate("cp932", "Japanese in Shift-JIS", _kana, 0.15),
    _Candidate("euc_jp", "Japanese in EUC-JP", _kana, 0.15),
    _Candidate("cp949", "Korean in EUC-KR", _hangul, 0.3),
    _Candidate("cp1251", "Cyrillic in Windows-1251", _alphabet("Cyrillic"), 0.55),
    _Candidate("koi8-r", "Cyrillic in KOI8-R", _alphabet("Cyrillic"), 0.55),
    _Candidate("cp866", "Cyrillic in DOS-866", _alphabet("Cyrillic"), 0.55),
    _Candidate("cp1253", "Greek in Windows-1253", _alphabet("Greek"), 0.6),
    _Candidate("cp1255", "Hebrew in Windows-1255", _alphabet("Hebrew"), 0.5),
    _Candidate("cp1256", "Arabic in Windows-1256", _alphabet("Arabic"), 0.55),
    _Candidate("cp874", "Thai in Windows-874", _alphabet("Thai"), 0.55),
)
