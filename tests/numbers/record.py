"""Record what a native Python answers: ``python -m tests.numbers.record [--check]``, or ``make record-numbers``.

The packages are those of the guest, in the guest's versions. With --check nothing is written: what the native Python
answers now is compared with the record.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.numbers import known_differences, native, records
from tests.numbers.comparing import SAME, TOLERANCE, difference


def main() -> int:
    """Record, or compare, and return the exit status."""
    with tempfile.TemporaryDirectory() as place:
        versions = records.guest_versions(Path(place))
    requirements = native.pinned(versions)
    python = ".".join(map(str, native.version(native.interpreter())))
    answers = native.answers(records.program_files(), requirements)
    count = sum(map(len, answers.values()))
    print(f"{count} programs answered by Python {python} with {', '.join(requirements)}")
    if "--check" not in sys.argv[1:]:
        records.write(python, versions, answers)
        return 0
    recorded = records.read()["answers"]
    loose = {p: bound for programs in known_differences.LOOSE.values() for p, bound in programs.items()}
    wrong = [
        program
        for file, found in answers.items()
        for program, answer in found.items()
        if difference(recorded[file].get(program), answer, loose.get(program, TOLERANCE)) != SAME
    ]
    print("\n".join(["all as recorded"] if not wrong else ["not as recorded:", *wrong]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
