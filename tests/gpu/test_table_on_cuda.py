"""The ways of training on a GPU: trained, sampled, resumed bit for bit if deterministic."""

import pytest

from tests import table

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("objective", table.OBJECTIVES)
@pytest.mark.parametrize("method", [method for method in table.METHODS if method != "vae"])
@pytest.mark.parametrize(("family", "precision"), [("sd15", "fp16"), ("sdxl", "bf16")])
def test_a_run_on_the_gpu_resumes_exactly(tmp_path, family, method, objective, precision):
    case = table.Case(family, method, objective, precision)
    project = table.write_project(tmp_path / "p", family)
    assert bool(table.run(case, project, "cuda")) == table.is_refused(case)


def test_the_vae_trains_on_the_gpu(tmp_path):
    case = table.Case("sd15", "vae", "plain", "fp32")
    assert not table.run(case, table.write_project(tmp_path / "p", "sd15"), "cuda")
