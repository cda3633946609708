"""All charts of one run or several over each other, which are zoomed and read together."""

import tkinter as tk
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ui.charts.figure_kinds import ChartData, Runs, chart_data
from ui.charts.figure_panels import Look, dash_of, figure_panels, height_for, role_of
from ui.charts.panel import DOT, Frame, Panel, draw_panel, draw_steps, with_room_for_labels
from ui.charts.pen import Pen
from ui.charts.pointer_note import write_next_to
from ui.theme.palette import Role
from ui.theme.theme import BODY
from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets, focused
from ui.widgets.zoom_keys import bind_zoom_keys

_ZOOM, _PAN = 1.25, 0.2
_LEAST_STEPS = 4.0
_DRAGGED = 5  # pixels; less is a click
_LEGEND_LINE = 20
_PLACEHOLDER = "The charts appear here after the first step."


class FigureCharts:
    """Charts in columns; place `canvas`.

    The wheel and a drag zoom the steps of all of them, a double click enlarges one. By keyboard:
    Left and Right move the line of values, Shift with them what is seen, + and - zoom, 0 shows the
    whole run, Up and Down choose a chart, Return enlarges it.

    Args:
        changed: Called when something else is shown.
        scroll: Scrolls the page by a number of notches if it can be; returns whether it did.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        *,
        name: str,
        changed: Callable[[], None] = lambda: None,
        scroll: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._widgets, self._changed, self._scroll = widgets, changed, scroll
        self._runs: Runs = ()
        self.data = ChartData()
        self._panels: Sequence[Panel] = ()
        self.look = Look()
        self._at: float | None = None  # the step whose values are shown
        self._chosen = 0
        self._drag: tuple[int, Frame] | None = None
        self._drawing = Drawing(
            widgets, parent, self.draw, width=200, height=200, name=name, takes_keys=True
        )
        self.canvas = canvas = self._drawing.canvas
        canvas.bind("<Motion>", lambda event: self._point_at(event.x, event.y))
        canvas.bind("<Leave>", self._left)
        canvas.bind("<ButtonPress-1>", self._pressed)
        canvas.bind("<B1-Motion>", self._dragged)
        canvas.bind("<ButtonRelease-1>", self._released)
        canvas.bind("<Double-Button-1>", self._double_clicked)
        widgets.on_wheel[canvas] = self._on_wheel
        for sequence, notch in (("<Control-Button-4>", -1), ("<Control-Button-5>", 1)):
            canvas.bind(sequence, partial(self._zoom_at_pointer, notch))
        canvas.bind(
            "<Control-MouseWheel>",
            lambda event: self._zoom_at_pointer(-1 if event.delta > 0 else 1),
        )
        keys: dict[str, Callable[[], object]] = {
            "Left": partial(self._step_by, -1),
            "Right": partial(self._step_by, 1),
            "Shift-Left": partial(self.pan, -_PAN),
            "Shift-Right": partial(self.pan, _PAN),
            "Up": partial(self._choose, -1),
            "Down": partial(self._choose, 1),
            "Return": self.enlarge,
        }
        for key, do in keys.items():
            canvas.bind(f"<{key}>", partial(_do, do))
        larger, smaller = partial(self.zoom, _ZOOM), partial(self.zoom, 1 / _ZOOM)
        bind_zoom_keys(canvas, larger=larger, smaller=smaller, whole=self.show_whole)

    def show(self, runs: Runs) -> None:
        """Draw runs with their names; what is seen of them stays."""
        self._runs = runs
        self.data = chart_data(runs, self.look.strength)
        self.draw()

    def set_look(self, **changes: object) -> None:
        """Change how the charts are shown: fields of `Look`."""
        strength = self.look.strength
        self.look = replace(self.look, **changes)  # type: ignore[arg-type] # Look's own fields
        if self.look.strength != strength:
            self.data = chart_data(self._runs, self.look.strength)
        self.draw()
        self._changed()

    @property
    def titles(self) -> list[str]:
        """What is shown."""
        return [panel.legend[0][0] for panel in self._panels]

    @property
    def values(self) -> list[str]:
        """The values at the line, as they are written."""
        texts = (text for panel in self._panels for _, __, ___, text in self._read(panel))
        return list(texts)

    def show_whole(self) -> None:
        """Show all steps."""
        self.set_look(span=None)

    def zoom(self, factor: float, at: float | None = None) -> None:
        """Show fewer steps by a factor. at: The step that stays at its place; None for a middle."""
        whole = self.data.span
        first, last = self.look.span or whole
        if at is None:
            at = self._at if self._at is not None and first <= self._at <= last else None
        at = (first + last) / 2 if at is None else at
        span = at - (at - first) / factor, at + (last - at) / factor
        if span[1] - span[0] >= whole[1] - whole[0]:
            self.show_whole()
        elif span[1] - span[0] >= min(_LEAST_STEPS, whole[1] - whole[0]):
            self._set_span(span)

    def pan(self, fraction: float) -> None:
        """Show later steps, by a fraction of those that are seen."""
        if self.look.span is not None:
            first, last = self.look.span
            by = (last - first) * fraction
            self._set_span((first + by, last + by))

    def _set_span(self, span: tuple[float, float]) -> None:
        """Show some steps, moved to where there are some."""
        first, last = self.data.span
        size = min(span[1] - span[0], last - first)
        start = min(max(span[0], first), last - size)
        self.set_look(span=(start, start + size))

    def enlarge(self) -> None:
        """Show the chosen chart alone, or all again."""
        if self.look.only:
            only, self._chosen = self.look.only, 0
            titles = [one.kind.title for one in self.data.charted]
            self._chosen = titles.index(only) if only in titles else 0
            self.set_look(only="")
        elif self._panels:
            only, self._chosen = self.titles[min(self._chosen, len(self._panels) - 1)], 0
            self.set_look(only=only)

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        drawing, px = self._drawing, self._drawing.px
        width, height = drawing.width, drawing.height
        count = len(self.data.only(self.look.only))
        above = legend_height(drawing, self.data.names, width)
        drawing.set_height(above + height_for(width, count, px))
        drawing.begin()
        self._panels = ()
        if width < px(120) or height < px(80):
            return
        self._panels = draw_figures(drawing, self.data, self.look, width, height)
        if not self._panels:
            middle = (width // 2, height // 2)
            drawing.text(*middle, _PLACEHOLDER, "dim", anchor="center", font=BODY)
            return
        if focused(self.canvas) is self.canvas:
            self._chosen = min(self._chosen, len(self._panels) - 1)
            frame = self._panels[self._chosen].frame
            box = (frame.left, frame.top, frame.right, frame.bottom)
            drawing.box(*box, outline="accent")
        self._show_values(self._at)

    def _show_values(self, at: float | None) -> None:
        """Mark the points nearest to a step in every chart, and write their values."""
        self._at = at
        drawing, px = self._drawing, self._drawing.px
        self.canvas.delete("pointer")
        if at is None:
            return
        for index, panel in enumerate(self._panels):
            frame = panel.frame
            found = self._read(panel)
            if not frame.first_step <= at <= frame.last_step or not found:
                continue
            x = frame.x(at)
            drawing.line((x, frame.top, x, frame.bottom), "border", tags="pointer")
            for step, value, role, _ in found:
                drawing.dot(frame.x(step), frame.y(value), px(DOT), role, tags="pointer")
            texts = [text for *_, text in found]
            if index == self._chosen:
                texts.insert(0, f"step {found[0][0]:,.0f}")
            write_next_to(drawing, panel.frame, x, "\n".join(texts))

    def _read(self, panel: Panel) -> list[tuple[float, float, Role, str]]:
        """Return step, value, color and text of every line's point nearest to the line of values.

        Empty while there is no line.
        """
        found: list[tuple[float, float, Role, str]] = []
        if self._at is None:
            return found
        for line in panel.lines:
            if line.label is not None and line.points:
                index = line.nearest(panel.frame, panel.frame.x(self._at))
                found.append((*line.points[index], line.color, line.label(index)))
        return found

    def _panel_at(self, x: int, y: int) -> int | None:
        """Return the index of the chart at a point, its title and axes included."""
        px = self._drawing.px
        for index, panel in enumerate(self._panels):
            frame, around = panel.frame, px(20)
            across = panel.edge <= x <= frame.right + around
            if across and frame.top - around <= y <= frame.bottom + around:
                return index
        return None

    def _point_at(self, x: int, y: int) -> None:
        index = self._panel_at(x, y)
        if index is None:
            return
        self._chosen, frame = index, self._panels[index].frame
        fraction = (x - frame.left) / max(1.0, frame.right - frame.left)
        fraction = min(1.0, max(0.0, fraction))
        self._show_values(frame.first_step + fraction * (frame.last_step - frame.first_step))

    def _left(self, event: "tk.Event[tk.Canvas]") -> None:
        """Forget the line of values; a pressed button grabs the pointer, which stays inside."""
        is_inside = 0 <= event.x < self._drawing.width and 0 <= event.y < self._drawing.height
        if not is_inside:
            self._show_values(None)

    def _pressed(self, event: "tk.Event[tk.Canvas]") -> str:
        self.canvas.focus_set()
        index = self._panel_at(event.x, event.y)
        self._drag = None if index is None else (event.x, self._panels[index].frame)
        return "break"

    def _dragged(self, event: "tk.Event[tk.Canvas]") -> None:
        self.canvas.delete("drag")
        if self._drag is not None:
            start, frame = self._drag
            ends = sorted((start, min(max(event.x, frame.left), frame.right)))
            box = (ends[0], frame.top, ends[1], frame.bottom)
            self._drawing.box(*box, outline="accent", tags="drag")

    def _released(self, event: "tk.Event[tk.Canvas]") -> None:
        self.canvas.delete("drag")
        if self._drag is None:
            return
        start, frame = self._drag
        self._drag = None
        if abs(event.x - start) >= self._drawing.px(_DRAGGED):
            per_pixel = (frame.last_step - frame.first_step) / (frame.right - frame.left)
            steps = sorted(
                frame.first_step + (x - frame.left) * per_pixel for x in (start, event.x)
            )
            size = max(_LEAST_STEPS, steps[1] - steps[0])
            self._set_span((steps[0], steps[0] + size))

    def _double_clicked(self, event: "tk.Event[tk.Canvas]") -> None:
        index = self._panel_at(event.x, event.y)
        if index is not None:
            self._chosen, self._drag = index, None
            self.enlarge()

    def _on_wheel(self, notches: int) -> None:
        if not self._scroll(notches):
            self._zoom_at_pointer(notches)

    def _zoom_at_pointer(self, notches: int, _: object = None) -> str:
        x = self.canvas.winfo_pointerx() - self.canvas.winfo_rootx()
        y = self.canvas.winfo_pointery() - self.canvas.winfo_rooty()
        self._point_at(x, y)
        self.zoom(_ZOOM**-notches)
        return "break"

    def _step_by(self, by: int) -> None:
        """Move the line of values to the next point of the chosen chart."""
        if not self._panels:
            return
        panel = self._panels[min(self._chosen, len(self._panels) - 1)]
        labeled = [line for line in panel.lines if line.label is not None and line.points]
        if not labeled:
            return
        line = max(labeled, key=lambda each: len(each.points))
        at = panel.frame.last_step if self._at is None else self._at
        index = line.nearest(panel.frame, panel.frame.x(at)) + by * (self._at is not None)
        self._show_values(line.points[min(max(0, index), len(line.points) - 1)][0])

    def _choose(self, by: int) -> None:
        self._chosen = min(max(0, self._chosen + by), max(0, len(self._panels) - 1))
        self.draw()


def draw_figures(pen: Pen, data: ChartData, look: Look, width: int, height: int) -> list[Panel]:
    """Draw the charts of runs, with their names above if there are several; return the panels."""
    above = legend_height(pen, data.names, width)
    for x, y, at in _legend_places(pen, data.names, width):
        name, mark = data.names[at], "- -" if dash_of(at) else "—"
        pen.text(x, y, f"{mark} {name}", role_of(at))
    box = (0, above, width, height - above)
    panels = figure_panels(data, look, box, pen.px)
    columns: dict[float, list[Panel]] = {}
    for panel in panels:
        columns.setdefault(panel.edge, []).append(panel)
    fitted = [panel for column in columns.values() for panel in with_room_for_labels(pen, column)]
    fitted.sort(key=lambda panel: (panel.frame.top, panel.frame.left))
    for panel in fitted:
        draw_panel(pen, panel)
        draw_steps(pen, panel.frame)
    return fitted


def legend_height(pen: Pen, names: Sequence[str], width: int) -> int:
    """Return the height of the names above the charts; 0 for a single run."""
    places = _legend_places(pen, names, width)
    return places[-1][1] + pen.px(_LEGEND_LINE + 4) if places else 0


def _legend_places(pen: Pen, names: Sequence[str], width: int) -> list[tuple[int, int, int]]:
    """Return left and upper edge of each run's name, and its number, in lines as needed."""
    if len(names) < 2:
        return []
    places, x, y = [], 0, 0
    for at, name in enumerate(names):
        wide = pen.measure(f"- - {name}") + pen.px(16)
        if x and x + wide > width:
            x, y = 0, y + pen.px(_LEGEND_LINE)
        places.append((x, y, at))
        x += wide
    return places


def _do(do: Callable[[], object], _: object) -> str:
    do()
    return "break"
