"""``python -m capse.cli``."""

from capse.cli import main

main()
