"""Cases of a test in one item, which costs less than `pytest.mark.parametrize`."""

import inspect

import pytest

RANDOM_FIRST = 8


def each(names, cases, ids=None):
    """Run a test for each case in one item, naming the case that fails.

    Takes what `pytest.mark.parametrize` takes. Each case has a `tmp_path` of its own; other
    fixtures are shared, so a test that patches should be parametrized instead.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(cases)

    def looped(test):
        signature = inspect.signature(test)
        fixtures = [value for name, value in signature.parameters.items() if name not in names]

        def run(**given):
            folder = given.get("tmp_path")
            for number, case in enumerate(cases):
                values = case if len(names) > 1 else (case,)
                if folder is not None:
                    given["tmp_path"] = folder / f"{number}"
                    given["tmp_path"].mkdir()
                try:
                    test(**given, **dict(zip(names, values, strict=True)))
                except BaseException as error:
                    named = list(ids)[number] if ids and not callable(ids) else case
                    error.add_note(f"in case {named!r}")
                    raise

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__signature__ = signature.replace(parameters=fixtures)
        run.pytestmark = list(getattr(test, "pytestmark", []))
        return run

    return looped


def few_each(names, every, few):
    """Run a test for a few cases in one item, and for all others in one of `make test-long`."""
    every, few = list(every), list(few)
    rest = [case for case in every if case not in few]
    assert len(few) + len(rest) == len(every)
    marked = pytest.param(rest, id="rest", marks=pytest.mark.long)

    def looped(test):
        signature = inspect.signature(test)
        fixtures = [value for name, value in signature.parameters.items() if name not in names]

        def run(cases, **given):
            each(names, cases)(test)(**given)

        own = inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__signature__ = signature.replace(parameters=[own, *fixtures])
        return pytest.mark.parametrize("cases", [pytest.param(few, id="first"), marked])(run)

    return looped


def random_cases(count):
    """Run a test with the first random cases, and with all others in `make test-long`."""
    return few_each(("case",), range(count), range(RANDOM_FIRST))
