"""`python -m pleat` is the command `pleat`."""

from ._commands import pleat

pleat()
