"""``python -m ortscope``: ``record`` runs a program under observation; everything else is the program's own."""

import os
import subprocess
import sys
from typing import List


def main(arguments: List[str]) -> int:
    if arguments[:1] == ["record"]:
        from ._record import main as record

        return record(arguments[1:])
    from . import _binary

    if os.name == "nt":
        return subprocess.call([_binary.find()] + arguments)
    program = _binary.find()
    os.execv(program, [program] + arguments)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
