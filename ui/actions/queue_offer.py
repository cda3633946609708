"""Offer to go on with runs that wait in the queue while nothing trains them."""

from onetrainer.errors import UserError
from ui.context import Context, Offer
from ui.dialogs.dialogs import show_error


def offer_queue(context: Context) -> None:
    """Say how many runs wait, with a button that starts the queue; nothing if it is held."""

    def begin() -> None:
        from onetrainer.queue.queue import Queue
        from onetrainer.queue.serve import start_server

        try:
            start_server(Queue())
        except UserError as error:
            show_error(context, error)
        context.act.show_page("queue")

    def show(count: int) -> None:
        if count:
            what = "1 run waits" if count == 1 else f"{count:,} runs wait"
            offer = Offer("Start the queue", "start queue", begin, lambda: True)
            context.act.show_message(
                f"{what} in the queue. Nothing begins until it is started.", offer
            )

    def failed(error: Exception) -> None:
        if not isinstance(error, UserError | OSError):  # the page of the queue reports them
            raise error

    context.widgets.jobs.run(_waiting, show, failed)


def _waiting() -> int:
    # Imported late to keep the start of the window fast.
    from onetrainer.queue.queue import Queue
    from onetrainer.queue.serve import is_served

    queue = Queue()
    state = queue.read()
    return 0 if state.is_held or is_served(queue) else len(state.waiting)
