"""The panel of one image's caption, alone."""

from types import SimpleNamespace

from onetrainer.edits.saving import read_content
from tests.ui.pumping import deliver_until
from ui.background.background_query import CancelToken
from ui.editing.image_list import read_images
from ui.pages.images.caption_panel import CaptionPanel


def test_tokens_are_counted_once_an_image_is_read_that_was_only_listed(root, widgets, jobs, draft):
    context = SimpleNamespace(widgets=widgets, draft=draft, images=None)
    panel = CaptionPanel(context, root, SimpleNamespace(read=read_content))
    lists = []
    lists.append(read_images(draft.config(), CancelToken(lambda *_: None, lists.append)))
    counted = []
    for images in lists:
        panel.show(images, images.rows[0])
        counted.append(panel._tokens.text)
    assert counted == ["", "Counting tokens …"]
    deliver_until(jobs, lambda: panel._tokens.text.startswith("Text encoder: "))
