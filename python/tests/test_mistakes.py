"""An error names the argument, what was expected and what was found."""

import pytest
import schedcast
from conftest import EXPERIMENT, RECORDING


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: schedcast.what_if(None), "recording: expected a path, found None"),
        (
            lambda: schedcast.what_if(RECORDING, seeds="3"),
            "seeds: expected a number of runs from 1 on, found '3'",
        ),
        (
            lambda: schedcast.what_if(RECORDING, duration=5),
            'duration: expected a time such as "20s", found 5',
        ),
        (
            lambda: schedcast.what_if(RECORDING, workers=-1),
            "workers: expected a number of threads from 1 on, found -1",
        ),
        (
            lambda: schedcast.advise(RECORDING, "p99<80ms", client="sometimes"),
            "client: expected open, closed or bounded, found 'sometimes'",
        ),
        (
            lambda: schedcast.check(RECORDING, 80),
            'slo: expected a promise such as "p99<80ms", or several, found 80',
        ),
        (lambda: schedcast.sweep(RECORDING), f"found the folder {RECORDING}\nhint: what_if"),
        (lambda: schedcast.fleet(3), "ranges: expected a path, found 3"),
    ],
)
def test_a_wrong_argument_is_named(ask, told):
    with pytest.raises(schedcast.UsageError) as raised:
        ask()
    assert told in str(raised.value)


def test_a_version_as_a_number_is_refused_in_settings_as_in_a_file():
    for refused in [
        lambda: schedcast.what_if(RECORDING, {"kernel.version": 6.10}),
        lambda: schedcast.compare(EXPERIMENT, set={"kernel": {"version": 6.10}}),
        lambda: schedcast.compare({"kernel": {"version": 6.10}}),
    ]:
        with pytest.raises(schedcast.InputError) as raised:
            refused()
        assert "expected a kernel version as a string, found the number 6.1" in str(raised.value)
        assert "as a number 6.10 would be 6.1" in str(raised.value)


def test_a_name_that_is_not_there_has_the_nearest_that_is(comparison):
    with pytest.raises(schedcast.UsageError, match="nearest valid name: `burst`"):
        comparison["burts"]
    with pytest.raises(KeyError, match="there is no metric `p99`; nearest valid name: `"):
        comparison["burst"]["p99"]
    assert comparison["burst"].get("p99") is None
    assert "burts" not in comparison
