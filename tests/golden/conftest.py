"""`pytest tests/golden --update-golden` writes the answers anew; look at the diff before you commit it."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden answers anew")
