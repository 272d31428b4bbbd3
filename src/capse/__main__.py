"""``python -m capse``, and with it ``torchrun -m capse``."""

from capse.cli import main

if __name__ == "__main__":
    main()
