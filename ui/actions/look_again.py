"""What a person changes in other programs is seen when they come back."""

from collections.abc import Callable

from ui.actions.file_check import FileCheck
from ui.context import Context, View


class LookAgain:
    """Looks at files and folders again whenever a person returns to the window or turns a page.

    Images come and go, a download ends, a disk is connected: the numbers and problems on the
    screen would stay those of before until a setting changes.

    page: Returns the page that is shown; None before there is one.
    """

    def __init__(self, context: Context, files: FileCheck, page: Callable[[], View | None]) -> None:
        self._context, self._files, self._page = context, files, page

    def __call__(self) -> None:
        """Look again, in threads; nothing is shown anew unless something is other than before."""
        self._files.look_again()
        self._context.preview.look_again(self._context.act.refresh)
        page = self._page()
        if page is not None:
            page.look_again()
