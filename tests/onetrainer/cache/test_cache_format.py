"""A shard lists what it holds, and no change to it goes unnoticed."""

import json
import struct

import pytest
from safetensors.numpy import load

from onetrainer.cache.format import (
    InvalidShard,
    entry_bytes,
    entry_key,
    intact_rows,
    merged,
    read_shard,
    write_file,
)
from tests.cache_files import contents, entry, put


def test_key_differs_wherever_a_part_does():
    keys = {
        entry_key(*tensors) for tensors in [("a", 1), ("a", "1"), ("a1",), ("a", 1.0), (1, "a")]
    }
    assert len(keys) == 5 and {len(key) for key in keys} == {32}


def test_other_programs_read_a_merged_shard(tmp_path):
    paths = put(tmp_path, range(3))
    data = b"".join(merged([(path, read_shard(path), [0]) for path in paths]))
    tensors = load(data)
    assert tensors["mean"].tolist() == [[0, 0], [1, -1], [2, -2]]
    assert tensors["n"].tolist() == [0, 1, 2]


def test_merging_copies_chosen_rows_and_their_checksums(tmp_path):
    paths = put(tmp_path, range(5))
    whole = tmp_path / "whole"
    write_file(whole, merged([(path, read_shard(path), [0]) for path in paths]))
    tensor = tmp_path / "part"
    write_file(
        tensor,
        merged([(whole, read_shard(whole), [0, 1, 3]), (paths[4], read_shard(paths[4]), [0])]),
    )
    before, after = read_shard(whole), read_shard(tensor)
    assert [after.key(row) for row in range(4)] == [entry_key(n) for n in (0, 1, 3, 4)]
    assert list(after.checksums) == [before.checksums[n] for n in (0, 1, 3, 4)]
    assert load(tensor.read_bytes())["n"].tolist() == [0, 1, 3, 4]


def test_no_altered_byte_passes_for_what_was_written(tmp_path):
    paths = put(tmp_path, range(3))
    whole = b"".join(merged([(path, read_shard(path), [0]) for path in paths]))
    rows = {entry_key(n): b"".join(contents(n).values()) for n in range(3)}
    noticed = 0
    for place in range(0, len(whole), 3):
        altered = bytearray(whole)
        altered[place] ^= 0x20
        intact = _intact(tmp_path / "altered", bytes(altered))
        assert all(rows.get(key, data) == data for key, data in intact.items())
        noticed += len(intact) < 3 or intact.keys() != rows.keys()
    begin = whole.index(b'"data_offsets"')
    assert 3 * noticed > 0.8 * (len(whole) - begin)


def _intact(path, data):
    path.write_bytes(data)
    try:
        shard = read_shard(path)
    except InvalidShard:
        return {}
    rows = intact_rows(path, shard, range(shard.count))
    return {shard.key(row): _bytes(data, shard, row) for row in rows}


def _bytes(data, shard, row):
    begins = [(tensor.begin + row * tensor.row_bytes, tensor.row_bytes) for tensor in shard.tensors]
    return b"".join(data[begin : begin + size] for begin, size in begins)


def test_files_that_are_no_shards_are_refused(tmp_path):
    whole = entry(1)
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + length])
    header["n"]["data_offsets"] = [0, 4]  # overlaps the other tensor
    overlapping = _with_header(json.dumps(header)) + whole[8 + length :]
    foreign = ["", "[]", "{}", '{"__metadata__": {"format": "other"}}', "[" * 5000]
    cases = [(whole[:left], "truncated") for left in (0, 7, 8, 100, -1)]
    cases += [(_with_header(text), "header|format") for text in (*foreign, '{"__metadata__": 1}')]
    for number, (data, words) in enumerate([*cases, (overlapping, "header")]):
        path = tmp_path / str(number)
        path.write_bytes(data)
        with pytest.raises(InvalidShard, match=words):
            read_shard(path)


def _with_header(text):
    return struct.pack("<Q", len(text)) + text.encode()


def test_file_that_could_not_be_written_leaves_nothing(tmp_path):
    def pieces():
        yield b"begun"
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        write_file(tmp_path / "a", pieces())
    assert list(tmp_path.iterdir()) == []


def test_entry_without_a_whole_key_is_refused():
    with pytest.raises(ValueError, match="key of 3 bytes"):
        entry_bytes(b"abc", {"n": ("I32", (), memoryview(b"1234"))})
