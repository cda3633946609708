from types import SimpleNamespace

import pytest


@pytest.fixture
def context(widgets, root):
    return SimpleNamespace(widgets=widgets, root=root, act=SimpleNamespace())
