"""Long texts that end early, and paths that begin late."""

from ui.messages.line_breaks import shorten_at_word, shorten_start


def test_of_a_path_that_is_too_long_the_file_s_end_is_kept():
    for room, words in [
        (60, "houses in summer/IMG_1000.JPG"),
        (20, "…summer/IMG_1000.JPG"),
        (9, "…1000.JPG"),
    ]:
        assert shorten_start("houses in summer/IMG_1000.JPG", room, len) == words, (room, words)


def test_only_whole_words_are_left_out():
    for most, words in [
        (40, "a photo, or what is there"),
        (19, "a photo, or what…"),
        (9, "a photo…"),
        (1, "…"),
    ]:
        assert shorten_at_word("a photo, or what is there", most) == words, (most, words)
