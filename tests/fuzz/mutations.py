"""Changes of bytes, and values that inputs trip over."""

from __future__ import annotations

from random import Random

NUMBERS = [
    "0",
    "1",
    "-1",
    "1e308",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "1e-320",
    "-0",
    "+1",
    "1_0",
    "0x1",
    "1.",
    ".5",
    "1e",
    "",
]
NUMBERS += ["2147483647", "2147483648", "4294967297", "9223372036854775808", "1" + "0" * 400, "１", "1,2", "1:1"]
WORDS = [
    *NUMBERS,
    ":",
    "::",
    ",",
    ",,",
    "#",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\x00",
    "\x0b",
    "\x1c",
    "\x85",
    "qid:1",
    "é",
    "\ufeff",
]
BYTES = [word.encode() for word in WORDS] + [
    b"\xff",
    b"\xff\xfe",
    b"PK\x03\x04",
    b"BZh9",
    b"\x93NUMPY",
    b"\x1f\x8b\x08",
]


def mutated(r: Random, content: bytes, most: int = 3) -> bytes:
    """Return bytes with one or more changes."""
    changed = bytearray(content)
    for _ in range(r.randint(1, most)):
        at = r.randint(0, len(changed))
        span = slice(at, at + r.choice([1, 1, 2, 4, 16, 64]))
        change = r.randrange(8)
        if change <= 1 and at < len(changed):
            changed[at] ^= 1 << r.randrange(8)
        elif change == 2 and at < len(changed):
            changed[at] = r.randrange(256)
        elif change == 3:
            del changed[span]
        elif change == 4:
            changed[at:at] = changed[span]
        elif change == 5:
            del changed[at:]
        elif change == 6:
            changed[at:at] = r.choice(BYTES)
        else:
            changed[span] = r.choice(BYTES)
    return bytes(changed)
