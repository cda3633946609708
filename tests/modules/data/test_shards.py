"""Tensors come out of the cache as they went in, with other processes and after any failure."""

import errno
import os
import threading

import numpy as np
import pytest
import torch

from modules.data import shards
from modules.data.shards import DamagedEntry, Store, entry_key
from onetrainer.cache.database import cannot_write
from onetrainer.cache.format import read_shard
from onetrainer.cache.store import prune
from onetrainer.errors import UserError

COUNT = 7
KEYS = [entry_key("latents", number) for number in range(COUNT)]


def _tensors(number, width=4):
    generator = torch.Generator().manual_seed(number)
    mean = torch.randn(1, 2, 3, width, generator=generator)
    half = mean[0, 0].to(torch.bfloat16)
    return {"mean": mean, "half": half, "count": torch.tensor(number), "odd": mean[0, 0] > 0}


def _is_right(tensors, number, width=4):
    expected = _tensors(number, width)
    return tensors.keys() == expected.keys() and all(
        torch.equal(tensors[name], tensor) and tensors[name].dtype == tensor.dtype
        for name, tensor in expected.items()
    )


@pytest.fixture
def store(tmp_path):
    """Seven entries, in one shard."""
    store = Store(tmp_path / "cache")
    for number, key in enumerate(KEYS):
        store.put("latents", key, _tensors(number))
    store.seal("latents")
    yield store
    store.close()


def _files(store, kind="latents"):
    return sorted((store.folder / kind).glob("*.safetensors"))


def test_every_tensor_is_read_bit_for_bit_before_and_after_sealing(tmp_path):
    store = Store(tmp_path)
    for number, key in enumerate(KEYS):
        store.put("latents", key, _tensors(number))
    single = store.locate("latents", KEYS)
    assert all(_is_right(store.read(single, i), i) for i in range(COUNT))
    store.seal("latents")
    merged = store.locate("latents", KEYS)
    assert len(_files(store)) == 1 and len(set(merged.shard.tolist())) == 1
    assert all(_is_right(store.read(merged, i), i) for i in range(COUNT))
    assert all(_is_right(store.read(single, i), i) for i in range(COUNT))
    store.close()


def test_places_are_in_the_order_of_the_keys(store):
    places = store.locate("latents", [KEYS[3], entry_key("none"), KEYS[0], KEYS[3]])
    assert places.missing == [1] and places.shard.dtype == places.row.dtype == np.int32
    assert [int(store.read(places, i)["count"]) for i in (0, 2, 3)] == [3, 0, 3]
    assert len(store.locate("text", KEYS).missing) == COUNT


def test_store_has_what_was_sealed(store):
    assert store.has("latents", KEYS[0])
    assert not store.has("latents", entry_key("none")) and not store.has("text", KEYS[0])


def test_writing_into_a_view_does_not_reach_the_file(store):
    before = _files(store)[0].read_bytes()
    store.read(store.locate("latents", KEYS), 0)["mean"].zero_()
    assert _files(store)[0].read_bytes() == before


def test_views_are_of_the_file_and_not_copied(store):
    places = store.locate("latents", KEYS)
    first, again = (store.read(places, 2)["mean"] for _ in range(2))
    assert first.data_ptr() == again.data_ptr()
    storages = {store.read(places, i)["mean"].data_ptr() for i in range(COUNT)}
    assert max(storages) - min(storages) == (COUNT - 1) * first.numel() * 4


def test_an_entry_that_is_not_there_is_refused(store):
    places = store.locate("latents", [KEYS[0], entry_key("none")])
    with pytest.raises(ValueError, match="missing"):
        store.read(places, 1)


def test_places_stay_readable_when_others_merge_and_prune(store):
    for number in range(20, 24):
        store.put("latents", entry_key(number), _tensors(number))
    keys = [*KEYS, *map(entry_key, range(20, 24))]
    places, before = store.locate("latents", keys), _files(store)
    other = Store(store.folder)
    other.seal("latents")
    prune(store.folder, limit_bytes=0)
    other.close()
    assert not set(before) & set(_files(store))
    assert all(
        _is_right(store.read(places, i), n) for i, n in enumerate([*range(7), *range(20, 24)])
    )
    assert not store.locate("latents", keys).missing


def test_lookup_that_is_overtaken_by_merging_is_repeated(store, monkeypatch):
    store.put("latents", entry_key("more"), _tensors(9))
    other = Store(store.folder)
    find = store._index.find

    def overtaken(kind, keys):
        yield from list(find(kind, keys))
        monkeypatch.setattr(store._index, "find", find)
        other.seal("latents")

    monkeypatch.setattr(store._index, "find", overtaken)
    places = store.locate("latents", KEYS)
    assert all(_is_right(store.read(places, i), i) for i in range(COUNT))
    other.close()


def test_entry_damaged_under_a_run_is_reported_and_made_again(store):
    places = store.locate("latents", KEYS)
    path, row = _files(store)[0], int(places.row[3])
    part = read_shard(path).tensors[0]
    with path.open("r+b") as file:
        file.seek(part.begin + row * part.row_bytes)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    for _ in range(2):
        with pytest.raises(DamagedEntry, match=path.name):
            store.read(places, 3)
    assert path.name in store.damaged[0]
    assert store.locate("latents", KEYS).missing == [3]
    store.put("latents", KEYS[3], _tensors(3))
    assert _is_right(store.get("latents", KEYS[3]), 3)


def test_damaged_entry_is_reported_as_such_where_the_folder_takes_no_more(store, monkeypatch):
    places = store.locate("latents", KEYS)
    path = _files(store)[0]
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")

    def refuse(work, **_):
        raise cannot_write(store.folder, OSError(errno.EROFS, "no"))

    monkeypatch.setattr(store._index.database, "transact", refuse)
    store.verify()
    for _ in range(2):
        with pytest.raises(DamagedEntry, match=path.name):
            store.read(places, int(places.row.argmax()))


def test_index_that_lies_is_found_out(store):
    def swap(connection):
        connection.execute("UPDATE entries SET row = 6 - row")

    store._index.database.transact(swap)
    places = store.locate("latents", KEYS)
    assert all(_is_right(store.read(places, i), i) for i in range(COUNT))


def test_shards_that_are_exchanged_under_a_run_give_no_other_entry(tmp_path):
    store, keys = Store(tmp_path), [entry_key(number) for number in range(6)]
    for number, key in enumerate(keys):
        store.put("latents", key, _tensors(number, width=4 + number % 2))
    store.seal("latents")
    store.locate("latents", keys)
    one, other = _files(store)
    one.rename(tmp_path / "one")
    other.rename(one)
    (tmp_path / "one").rename(other)
    places = store.locate("latents", [*keys, entry_key("none")])  # so that it is searched for
    found = [i for i in range(6) if i not in places.missing]
    assert found and all(_is_right(store.read(places, i), i, 4 + i % 2) for i in found)
    store.close()


def test_index_that_always_lies_gives_no_other_entry(store, monkeypatch):
    find = store._index.find

    def lie(kind, keys):
        reported = list(find(kind, keys))
        yield from [reported[1], reported[0], *reported[2:]]

    monkeypatch.setattr(store._index, "find", lie)
    places = store.locate("latents", KEYS)
    assert places.missing == [0, 1]
    assert all(_is_right(store.read(places, i), i) for i in range(2, COUNT))


def test_shard_that_cannot_be_opened_counts_as_missing(store, monkeypatch):
    name = _files(store)[0].name
    other = Store(store.folder)

    def refuse(mapped, folder):
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(shards._MappedShard, "open", refuse)
        assert len(other.locate("latents", KEYS).missing) == COUNT
    assert name in other.damaged[0]
    other.put("latents", KEYS[0], _tensors(0))
    assert _is_right(other.get("latents", KEYS[0]), 0)
    other.close()


def test_many_single_files_are_merged_while_they_are_put(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SEALED_AT", 3)
    store = Store(tmp_path)
    for number, key in enumerate(KEYS):
        store.put("latents", key, _tensors(number))
        assert len(_files(store)) <= 3
    places = store.locate("latents", KEYS)
    assert all(_is_right(store.read(places, i), i) for i in range(COUNT))
    store.close()


def test_threads_read_and_write_at_once(tmp_path):
    store, failures = Store(tmp_path), []

    def work(first):
        try:
            for number in range(first, first + 10):
                store.put("latents", entry_key(number), _tensors(number))
                places = store.locate("latents", [entry_key(number)])
                assert _is_right(store.read(places, 0), number)
                if number % 5 == 0:
                    store.seal("latents")
        except Exception as error:  # noqa: BLE001 - reported in the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and not store.locate("latents", [*map(entry_key, range(40))]).missing
    store.close()


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "cannot be written")]
)
def test_disk_that_takes_no_more_is_reported_with_a_remedy(store, monkeypatch, number, words):
    def refuse(path, pieces, **_):
        raise OSError(number, "no")

    monkeypatch.setattr(shards, "write_file", refuse)
    with pytest.raises(UserError, match=words) as error:
        store.put("latents", KEYS[0], _tensors(0))
    assert "Cache folder" in error.value.remedy and str(store.folder) in error.value.what


def test_full_disk_while_sealing_is_reported_and_loses_nothing(store, monkeypatch):
    store.put("latents", entry_key("more"), _tensors(9))

    def refuse(number):
        raise OSError(errno.ENOSPC, "no")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(UserError, match="disk is full"):
            store.seal("latents")
    places = store.locate("latents", [*KEYS, entry_key("more")])
    assert not places.missing and len(_files(store)) == 2
    assert len(list((store.folder / "latents").iterdir())) == 2


@pytest.mark.parametrize("is_full", [True, False])
def test_a_folder_that_takes_no_more_does_not_spoil_the_end(store, monkeypatch, is_full):
    """A run that has saved all it made is not to fail because its cache cannot be tidied."""
    store.put("latents", entry_key("more"), _tensors(9))

    def refuse(work, **_):
        raise cannot_write(store.folder, OSError(errno.ENOSPC if is_full else errno.EROFS, "no"))

    with monkeypatch.context() as patch:
        patch.setattr(store._index.database, "transact", refuse)
        store.close()
    other = Store(store.folder)
    assert not other.locate("latents", [*KEYS, entry_key("more")]).missing
    other.close()


def test_file_in_the_folder_s_place_is_reported(tmp_path):
    (tmp_path / "cache").write_text("mine")
    with pytest.raises(UserError, match="cannot be written"):
        Store(tmp_path / "cache")
    assert (tmp_path / "cache").read_text() == "mine"
