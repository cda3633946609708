"""Banner of the run page: how the run ended and what to do next, or its warnings."""

import tkinter as tk

from ui.context import Context
from ui.pages.run.banner_message import MOST_PLACES, Message, message_of
from ui.pages.run.log_fold import LogFold
from ui.widgets.button import Button
from ui.widgets.placing import show, wrap_within


class RunBanner:
    """Banner at the top of the page, hidden while there is no message."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self._outer, inner = widgets.card(parent)
        self._stripe = tk.Frame(inner, width=widgets.px(4))
        self._stripe.pack(side="left", fill="y", padx=(0, widgets.px(14)))
        column = widgets.frame(inner)
        column.pack(side="left", fill="both", expand=True)
        self._title = widgets.label(column, style="Heading")
        self._title.pack(anchor="w")
        self._text = widgets.label(column, wrap=700)
        self._buttons = widgets.frame(column)
        self._log = LogFold(context, column)
        self._open_output = widgets.button(
            self._buttons, "Open output folder", self._show_output, name="open output"
        )
        self._show_log = widgets.button(
            self._buttons, "Show log", self._toggle_log, name="show log"
        )
        self._remedy = widgets.button(
            self._buttons, "", self._do_remedy, kind="primary", name="remedy"
        )
        self._places = [self._make_place(index) for index in range(MOST_PLACES)]
        self._report = widgets.button(
            self._buttons, "Make report", self._make_report, name="banner report"
        )
        self._end = widgets.button(
            self._buttons, "End the process", context.act.kill, kind="danger", name="end process"
        )
        self._message: Message | None = None
        wrap_within(column, self._text)

    @property
    def has_remedy(self) -> bool:
        """Whether it shows its main button."""
        return self._message is not None and self._message.remedy is not None

    @property
    def text(self) -> str:
        """Text of the banner; "" while it is hidden."""
        if not self._outer.winfo_manager():
            return ""
        return "\n".join(part.text for part in (self._title, self._text, self._log) if part.text)

    @property
    def buttons(self) -> list[str]:
        """Labels of its buttons, from the left; for tests and assistive tools."""
        shown = [child for child in self._buttons.pack_slaves() if self._outer.winfo_manager()]
        return [str(child.cget("text")) for child in shown]

    def refresh(self) -> None:
        """Show the current message."""
        message = message_of(self._context)
        if message == self._message:
            return
        self._message = message
        self._log.close()
        if message is None:
            self._outer.pack_forget()
            return
        widgets = self._context.widgets
        widgets.theme.paint(self._stripe, bg=message.tone)
        self._title.say(message.title)
        self._text.say(message.text)
        self._text.pack_forget()  # packed again, above the buttons
        self._buttons.pack_forget()
        show(self._text, bool(message.text), anchor="w", pady=(widgets.px(4), 0))
        self._show_buttons(message)
        first = self._outer.master.winfo_children()[1]
        show(self._outer, True, fill="x", pady=(0, widgets.px(14)), before=first)

    def _show_buttons(self, message: Message) -> None:
        offered = ((self._remedy, message.remedy), *zip(self._places, message.places, strict=False))
        for button, remedy in offered:
            if remedy is not None:
                button.set_text(remedy.label)
        self._show_log.set_text("Show log")
        shown = {
            self._remedy: message.remedy is not None,
            **{place: index < len(message.places) for index, place in enumerate(self._places)},
            self._open_output: message.can_open_output,
            self._end: message.can_end,
            self._show_log: message.has_log,
            self._report: message.has_log,
        }
        gap = self._context.widgets.px(8)
        for button, is_shown in shown.items():
            button.widget.pack_forget()  # packed in this order
            show(button.widget, is_shown, side="left", padx=(0, gap))
        show(self._buttons, any(shown.values()), anchor="w", pady=(gap, 0))

    def _make_place(self, index: int) -> Button:
        def go() -> None:
            if self._message is not None:
                self._message.places[index].do()

        return self._context.widgets.button(self._buttons, "", go, name=f"banner place {index}")

    def _toggle_log(self) -> None:
        self._log.toggle()
        self._show_log.set_text("Hide log" if self._log.is_open else "Show log")

    def _show_output(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            outputs = self._context.session.state.outputs
            target = (folder.path / outputs[0]).parent if outputs else folder.path
            self._context.act.open_path(target)

    def _do_remedy(self) -> None:
        if self._message is not None and self._message.remedy is not None:
            self._message.remedy.do()

    def _make_report(self) -> None:
        folder = self._context.session.folder
        if folder is not None:
            self._context.act.report(folder.path)
