"""The mask of the selected image in place of the grid of images."""

from collections.abc import Callable
from tkinter import ttk
from typing import TYPE_CHECKING

from ui.context import Context
from ui.pages.images.sides import Sides
from ui.pages.images.thumbnails import Thumbnails
from ui.pages.images.writing import Writing

if TYPE_CHECKING:
    from ui.pages.images.mask_view import MaskView


class Painting:
    """Shows the mask, which is made when it is first needed, and the grid again.

    left: Called once the grid is shown again.
    """

    def __init__(
        self,
        context: Context,
        body: ttk.Frame,
        sides: Sides,
        thumbnails: Thumbnails,
        writing: Writing,
        *,
        left: Callable[[], None],
    ) -> None:
        self._context, self._body, self._sides, self._writing = context, body, sides, writing
        self._thumbnails, self._left = thumbnails, left
        self.view: MaskView | None = None

    @property
    def is_shown(self) -> bool:
        """Whether a mask is shown."""
        return self.view is not None and bool(self.view.outer.winfo_manager())

    def show(self) -> None:
        """Show the mask of the selected image."""
        # Imported late, with Pillow, to keep the first visit of the page fast.
        from ui.pages.images.mask_view import MaskView

        row = self._thumbnails.row
        assert row is not None, "one is selected"
        if self.view is None:
            self.view = MaskView(
                self._context,
                self._body,
                read=self._writing.read,
                save=self._writing.save_made,
                move=self._move,
                leave=self.leave,
            )
        self._sides.replace_by(self.view.outer)
        self.view.show(self._thumbnails.images, row)

    def take_focus(self) -> bool:
        """Begin in the mask; return whether it is shown."""
        if self.view is None or not self.is_shown:
            return False
        self.view.canvas.focus_set()
        return True

    def save(self) -> None:
        """Save the mask if it was changed."""
        if self.view is not None:
            self.view.save()

    @property
    def index(self) -> int:
        """Index in the list of the image whose mask is shown, also if the filter leaves it out.

        -1 if no mask is shown, and if the list does not have its image.
        """
        row = self.view.row if self.view is not None and self.is_shown else None
        return -1 if row is None else self._thumbnails.images.rows.index_of(row.path)

    def reload(self) -> None:
        """Show the mask again if its file holds something else now."""
        index, images = self.index, self._thumbnails.images
        if self.view is not None and index >= 0:
            self.view.show(images, images.rows[index])

    def leave(self) -> bool:
        """Go back to the grid; return whether the mask was shown."""
        if not self.is_shown:
            return False
        self.save()
        self._sides.replace_by(None)
        self._left()
        self._thumbnails.grid.take_focus()
        return True

    def _move(self, by: int) -> None:
        """Go to the next image that is shown, or to the previous one for -1."""
        grid = self._thumbnails.grid
        if 0 <= grid.current + by < grid.count:
            self._thumbnails.move(by)
            self.show()
