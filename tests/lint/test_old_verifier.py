#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""old_verifier.py finds what the real verifier of 6.1 refused (tests/vm), and leaves alone what it took."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from old_verifier import unbounded_copies  # noqa: E402

COPY, GREATER, EXIT, SHIFT, ADD, LOAD = 0xBC, 0x25, 0x95, 0x67, 0x0F, 0x79


def code(tested, index):
    """w4 = w3; if r<tested> > 992 goto exit; r2 = index; r2 <<= 3; r0 += r2; r2 = *(u64 *)(r0 + 8); exit"""
    return [(COPY, 0x34, 0, 0), (GREATER, tested, 4, 992), (COPY, index << 4 | 2, 0, 0), (SHIFT, 2, 0, 3), (ADD, 0x20, 0, 0),
            (LOAD, 0x02, 8, 0), (EXIT, 0, 0, 0)]


class UnboundedCopies(unittest.TestCase):
    def test_the_other_register_is_tested(self):
        self.assertEqual(list(unbounded_copies(code(tested=3, index=4))), [0])

    def test_the_copy_itself_is_tested(self):
        self.assertEqual(list(unbounded_copies(code(tested=4, index=4))), [])

    def test_what_was_tested_is_the_index(self):
        self.assertEqual(list(unbounded_copies(code(tested=3, index=3))), [])


if __name__ == "__main__":
    unittest.main()
