"""`python -m femgpu`: see `cli`."""

import sys

from femgpu.cli import main

if __name__ == "__main__":
    sys.exit(main())
