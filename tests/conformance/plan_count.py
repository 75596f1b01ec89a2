"""How many plans the conformance tests have tried: counted over all processes of a run, and held to what a whole run must try.

Where pytest-xdist is not there, as on a node with a GPU, parts of the tests may run side by side: FEMGPU_TEST_PART=k/n runs each
n-th test from number k on (0 to n - 1), FEMGPU_TEST_PLANS names a folder for what is counted, and
`python tests/conformance/plan_count.py FOLDER` adds it up.
"""

import hashlib
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

# Distinct plans that a run of all tests of these files tries at least.
LEAST = 500
FILES = "conformance/test_conformance.py", "conformance/test_operators.py"
_PROPERTY = "plans"
# Those of the test that runs now: text that tells a plan on a form from any other -> schedule, form, cell and degree.
TRIED = {}


def tried(plan, sample, target):
    """Takes note of a plan that was found right."""
    element = tuple(sample.element)
    TRIED[f"{plan!r} {element} {sample.form} {target}"] = plan.schedule, sample.form, *element[:2]


class PlanCount:
    """The plugin of pytest."""

    def __init__(self):
        self._known, self._tests = {}, set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Sends the plans of a test to the process that reports."""
        outcome = yield
        report = outcome.get_result()
        if call.when == "call" and TRIED:
            # Numbers of texts, which are long; the same in all processes.
            report.user_properties.append((_PROPERTY, [[hash_of(text), *about] for text, about in TRIED.items()]))
        TRIED.clear()

    def pytest_collection_modifyitems(self, items):
        """Leaves out what is no part of this process."""
        part, _, parts = os.environ.get("FEMGPU_TEST_PART", "0/1").partition("/")
        items[:] = items[int(part) :: int(parts)]

    def pytest_runtest_logreport(self, report):
        """Counts those of tests that pass."""
        if report.when == "call" and report.passed and report.nodeid.partition("::")[0].endswith(FILES):
            self._tests.add(report.nodeid.rpartition("::")[2])
            for name, values in report.user_properties:
                if name == _PROPERTY:
                    self._known |= {key: tuple(about) for key, *about in values}
            if folder := os.environ.get("FEMGPU_TEST_PLANS"):
                Path(folder).mkdir(parents=True, exist_ok=True)
                (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(self._known))

    def pytest_terminal_summary(self, terminalreporter):
        if self._known:
            terminalreporter.line(self.text())

    def text(self):
        """The count by schedules, forms and degrees."""
        every = list(self._known.values())
        schedules = Counter(schedule for schedule, *_ in every)
        forms, cells = {form for _, form, *_ in every}, {cell for *_, cell, _ in every}
        degrees = sorted({degree for *_, degree in every})
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(schedules.items()))
        return (
            f"{len(every)} distinct plans are right: {kinds}; {len(forms)} forms, {len(cells)} kinds of cells, "
            f"degrees {degrees[0]} to {degrees[-1]}"
        )

    @property
    def is_whole(self):
        """Whether all tests of the tables have passed."""
        from conformance import test_conformance as plans
        from conformance import test_operators as operators

        sizes = {
            "test_plans_are_right": plans.NUM_SAMPLES,
            "test_plans_of_high_degrees_are_right": plans.NUM_HIGH,
            "test_unrolled_plans_are_right": plans.NUM_UNROLLED,
            "test_many_plans_are_right": plans.NUM_SMALL,
            "test_operators_are_right": operators.NUM_SAMPLES,
        }
        return all(f"{name}[{i}]" in self._tests for name, size in sizes.items() for i in range(size))

    def pytest_sessionfinish(self, session):
        """A whole run that tries too few plans fails."""
        if self._known and self.is_whole and len(self._known) < LEAST:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            print(f"\nonly {len(self._known)} distinct plans were tried; expected at least {LEAST}")


def hash_of(text):
    """A number of a text, the same in all processes, each of which prints sets in an order of its own."""
    text = re.sub(r"frozenset\(\{([^{}]*)\}\)", lambda found: str(sorted(found[1].split(", "))), text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    every = PlanCount()
    for path in Path(sys.argv[1]).glob("*.json"):
        every._known |= json.loads(path.read_text())
    print(every.text())
