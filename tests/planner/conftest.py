"""The command line, called inside this process."""

from tests.cli.conftest import call

__all__ = ["call"]
