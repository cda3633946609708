"""What charts are drawn with: a canvas of the window, or an image."""

from collections.abc import Sequence
from typing import Protocol

from ui.theme.palette import Role
from ui.widgets.drawing import Anchor


class Pen(Protocol):
    """Draws in the colors of a theme. Lengths of `px` are at 96 dpi, all others in pixels."""

    @property
    def width(self) -> int:
        """Width in pixels."""
        ...

    def px(self, length: float) -> int:
        """Convert a length."""
        ...

    def measure(self, text: str) -> int:
        """Return the width of a text."""
        ...

    def text(
        self, x: float, y: float, text: str, role: Role = "text", *, anchor: Anchor = "nw"
    ) -> int:
        """Write a text; return what a canvas calls it."""
        ...

    def line(
        self,
        points: tuple[float, float, float, float],
        role: Role,
        *,
        dash: tuple[int, ...] = (),
    ) -> None:
        """Draw a line from a point to another: x, y, x, y."""
        ...

    def path(
        self,
        points: Sequence[tuple[float, float]],
        role: Role,
        *,
        width: int = 1,
        dash: tuple[int, ...] = (),
    ) -> None:
        """Draw a line through at least two points; round corners if it is wider than 1."""
        ...

    def area(
        self, points: Sequence[tuple[float, float]], role: Role, *, outline: Role | None = None
    ) -> None:
        """Fill a polygon."""
        ...

    def dot(self, x: float, y: float, radius: float, role: Role) -> None:
        """Draw a filled circle."""
        ...

    def ring(self, x: float, y: float, radius: float, role: Role, *, width: int) -> None:
        """Draw a circle."""
        ...
