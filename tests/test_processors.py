from tests import processors
from tests.close import FLOAT64, near
from tests.each import each


@each(
    ("capability", "expected"),
    [
        ("DEFAULT", [("default", 2)]),
        ("AVX512", [("default", 1), ("avx2", 1), ("avx512", 2)]),
        ("SVE256", [("default", 1), (None, 2)]),  # of ARM: named by nothing, as it is
    ],
)
def test_numbers_are_compared_with_the_vectors_of_each_generation_and_with_two_threads(
    capability, expected
):
    made = processors.runs(capability)
    assert [(next(iter(names), None), threads) for names, threads in made] == expected
    assert len(processors.runs(capability, is_all=True)) == 2 * len(expected)


def test_what_compares_by_the_helper_is_marked_for_it(request):
    assert request.node.get_closest_marker("numeric")
    assert near(0.3, eps=FLOAT64) == 0.1 + 0.2
