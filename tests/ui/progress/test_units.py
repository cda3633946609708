from ui.progress.units import format_bytes, format_speed, format_time


def test_figures_are_shown_as_people_say_them():
    assert [format_time(s) for s in (4.2, 61, 3725)] == ["4 s", "1 min 01 s", "1 h 02 min"]
    assert [format_bytes(b) for b in (5 * 2**20, 9.1 * 2**30)] == ["5 MB", "9.1 GB"]
    assert [format_speed(s) for s in (0, 3.14159, 0.25)] == ["", "3.1 it/s", "4.0 s/it"]
