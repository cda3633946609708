from types import SimpleNamespace

import pytest


@pytest.fixture
def context(kit, root):
    return SimpleNamespace(kit=kit, root=root, act=SimpleNamespace())
