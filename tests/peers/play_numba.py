"""Numba's own tests of its driver: writes each test's outcome to PEERS_OUT."""
import json
import os
import sys
import unittest

import served

PACKAGE = "numba.cuda.tests.cudadrv"


class Outcomes(unittest.TextTestResult):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.outcomes = {}

    def note(self, test, outcome):
        name = test.id().removeprefix(PACKAGE + ".")
        if self.outcomes.get(name) != "fail":
            self.outcomes[name] = outcome

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "pass")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skip")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "fail")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "fail")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "skip")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "fail")


def main():
    from numba.cuda.tests import cudadrv  # the module that the tests import it as

    folder = os.path.dirname(cudadrv.__file__)
    loader = unittest.TestLoader()
    names = sorted(name[:-3] for name in os.listdir(folder)
                   if name.startswith("test_") and name.endswith(".py"))
    suite = loader.loadTestsFromNames([f"{PACKAGE}.{name}" for name in names])
    result = unittest.TextTestRunner(stream=sys.stderr, resultclass=Outcomes).run(suite)
    if os.environ["PEERS_WAY"] == "pleat":
        served.require()
    with open(os.environ["PEERS_OUT"], "w", encoding="utf-8") as out:
        json.dump(result.outcomes, out)


if __name__ == "__main__":
    main()
