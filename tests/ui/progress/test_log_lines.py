"""The log of a worker as the window reads it: in pieces, sorted, folded, searched."""

from tests.each import each
from ui.progress.log_lines import LogReader, LogRows, find_in
from ui.progress.worker_log import Classifier

LOG = """worker 7 begins at 2026-11-25 22:42:52
I1125 22:42:53.1 7 lib.cpp:3] kernels

/venv/lib/x.py:3: FutureWarning: old
  call()
loading
  0%|   | 0/20 [00:00<?, ?it/s]\r100%|###| 20/20 [00:40<00:00,  2.0s/it]
WARNING: the disk is slow
Traceback (most recent call last):
  File "a.py", line 3, in <module>
    boom()
ValueError: no such thing
going on
"""
KINDS = ["text", *["noise"] * 4, "text", "noise", "warning", *["error"] * 4, "text"]


def read(path):
    reader, rows = LogReader(path), LogRows()
    news = reader.read()
    rows.extend(news.lines, news.kinds)
    return reader, rows


@each(
    "line, kind",
    [
        ("torch.OutOfMemoryError: CUDA out of memory", "error"),
        ("2026-11-25 ERROR something", "error"),
        ("Fatal Python error: Segmentation fault", "error"),
        ("the error of the validation loss is small", "text"),
        ("no warning was found", "text"),
        ("transformers - WARNING - slow tokenizer", "warning"),
        ("Failed to load torchao kernels.so", "noise"),
    ],
)
def test_a_line_is_told_by_what_programs_write(line, kind):
    assert Classifier().kind(line) == kind


def test_lines_are_sorted_and_the_noise_of_libraries_is_one_row_that_unfolds(tmp_path):
    (tmp_path / "worker.log").write_text(LOG)
    _, log = read(tmp_path / "worker.log")
    assert log.kinds == KINDS
    assert log.rows == [0, ~1, 5, ~6, 7, 8, 9, 10, 11, 12]
    assert log.text(~1) == "+ 4 lines of libraries: I1125 22:42:53.1 7 lib.cpp:3] kernels"
    assert log.text(~6).endswith("100%|###| 20/20 [00:40<00:00,  2.0s/it]")
    assert log.whole(log.rows).splitlines()[4] == "  call()"  # folded ones are copied too
    assert log.toggle(~1) and not log.toggle(5)
    assert log.rows[:7] == [0, ~1, 1, 2, 3, 4, 5]
    assert log.whole(log.rows).count("FutureWarning") == 1
    for name, count in (("all", 13), ("warnings", 5), ("errors", 4)):
        log.set_filter(name)
        assert len(log.rows) == count, name


def test_a_folded_line_is_unfolded_to_be_found_and_a_hidden_one_leads_to_the_next():
    log = LogRows()
    log.extend(list("abcdef"), ["text", "noise", "noise", "text", "error", "text"])
    assert find_in(log.lines, "C") == [2] and find_in(log.lines, "") == []
    row = log.row_of(2)
    assert log.rows[row] == 2
    log.set_filter("errors")
    assert log.rows[log.row_of(2)] == 4 and log.row_of(5) == 0


def test_a_growing_log_is_read_on_and_a_new_one_from_its_beginning(tmp_path):
    path = tmp_path / "worker.log"
    reader = LogReader(path)
    assert reader.read().lines == []  # there is none yet
    with path.open("w") as handle:
        handle.write("one\ntw")
        handle.flush()
        assert reader.read().lines == ["one"]
        handle.write("o\nunfinished")
        handle.flush()
        assert reader.read().lines == ["two"]
    assert reader.read().lines == ["unfinished"]  # nothing has followed it
    assert reader.read() == reader.read()
    path.replace(tmp_path / "worker.log.1")
    path.write_text("new\n")
    news = reader.read()
    assert news.restarted and news.lines == ["new"]


def test_a_large_log_comes_in_pieces_with_every_line_once(tmp_path):
    path = tmp_path / "worker.log"
    lines = [f"line {number:06d} {'·' * (number % 90)}" for number in range(60_000)]
    path.write_text("\n".join(lines) + "\n")
    reader, found, pieces = LogReader(path), [], 0
    while True:
        news = reader.read()
        found += news.lines
        pieces += 1
        if news.is_complete:
            break
    assert found == lines
    assert pieces == path.stat().st_size // (1 << 18) + 1
