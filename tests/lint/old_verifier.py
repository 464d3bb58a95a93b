#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the verifier of an older kernel would refuse, found in the compiled object without that kernel:

  tests/lint/old_verifier.py BUILD/bpf/flushlight.bpf.o

* stacks of a chain of calls: older kernels round each up to 32 bytes; together they may be 512, and 8 deep.
* an index whose bound was tested on a register of which it is a 32-bit copy: the copy stays unbounded there
  (`R0 unbounded memory access` on 6.1).
* a loop whose body falls through to its head (clang lays them so at times): that is a `back-edge` there, unless
  the last instruction of the body is a jump.
tests/vm loads the object on a real 6.1; this takes a moment, and says so before.
"""
import struct
import sys

STACK_MAX, STACK_ROUNDS_TO, FRAMES_MAX = 512, 32, 8
FRAME_POINTER = 10
PSEUDO_CALL, TEXT_RELOCATION = 1, 10
CALL, EXIT, JUMP = 0x85, 0x95, 0x05
CLASS_JUMPS = (0x05, 0x06)
ADD_CONSTANT, MOVE_REGISTER, WIDE_LOAD = 0x07, 0xBF, 0x18
ADD_REGISTER, MOVE_REGISTER_32, SHIFT_LEFT = 0x0F, 0xBC, 0x67
BOUNDS = (0x20, 0x30, 0xA0, 0xB0)  # unsigned: >, >=, <, <=
STRAIGHT = 24  # instructions looked through


class Object:
    """Functions of a relocatable BPF object: (section, start, count of instructions)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:4] != b"\x7fELF" or struct.unpack_from("<H", self.data, 18)[0] != 247:
            sys.exit(f"{path} is no BPF object")
        offset, = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, offset + i * size) for i in range(count)]
        self.names = names
        self.symbols = self._symbols()
        self.functions = {(s["section"], s["value"] // 8): (s["name"], s["size"] // 8) for s in self.symbols if s["type"] == 2}
        self.calls = self._calls()

    def _text(self, section, offset):
        start = self.sections[section][4] + offset
        return self.data[start:self.data.index(b"\0", start)].decode()

    def _symbols(self):
        table = next(s for s in self.sections if s[1] == 2)
        symbols = []
        for at in range(table[4], table[4] + table[5], 24):
            name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
            symbols.append({"name": self._text(table[6], name), "type": info & 15, "section": section, "value": value, "size": size})
        return symbols

    def instructions(self, section, start, count):
        base = self.sections[section][4] + start * 8
        return [struct.unpack_from("<BBhi", self.data, base + i * 8) for i in range(count)]

    def _calls(self):
        """(section, instruction) of a call across sections or to a global function -> the function called."""
        found = {}
        for section in self.sections:
            if section[1] != 9:
                continue
            for at in range(section[4], section[4] + section[5], 16):
                offset, info = struct.unpack_from("<QQ", self.data, at)
                if info & 0xFFFFFFFF != TEXT_RELOCATION:
                    continue
                symbol = self.symbols[info >> 32]
                place = offset // 8
                added = self.instructions(section[7], place, 1)[0][3] + 1
                found[section[7], place] = (symbol["section"], symbol["value"] // 8 + (added if symbol["type"] == 3 else 0))
        return found

    def called(self, section, place, instruction):
        """The function that the instruction calls; None: it calls none (a helper is none)."""
        if instruction[0] != CALL or instruction[1] >> 4 != PSEUDO_CALL:
            return None
        return self.calls.get((section, place), (section, place + 1 + instruction[3]))


def stack_of(code):
    """Bytes of the frame that a function uses: accesses through r10, and addresses taken of it."""
    deepest, copies = 0, set()
    for operation, registers, offset, constant in code:
        source, target = registers >> 4, registers & 15
        kind = operation & 7
        if kind == 1 and source == FRAME_POINTER or kind in (2, 3) and target == FRAME_POINTER:
            deepest = max(deepest, -offset)
        if operation == ADD_CONSTANT and target in copies:
            deepest = max(deepest, -constant)
        copies.discard(target)
        if operation == MOVE_REGISTER and source == FRAME_POINTER:
            copies.add(target)
    return deepest


def successors(code, at):
    """As the verifier walks: (next instruction, whether it may be one that is being walked)."""
    operation, _, offset, constant = code[at]
    if operation == EXIT:
        return []
    if operation & 7 in CLASS_JUMPS and operation not in (CALL,):
        if operation == JUMP:
            return [(at + 1 + offset, True)]
        return [(at + 1, True), (at + 1 + offset, True)]
    return [(at + (2 if operation == WIDE_LOAD else 1), False)]


def fall_through_loops(code):
    state, walk = {0: "walked"}, [(0, iter(successors(code, 0)))]
    while walk:
        at, rest = walk[-1]
        for following, may_loop in rest:
            if following not in state:
                state[following] = "walked"
                walk.append((following, iter(successors(code, following))))
                break
            if state[following] == "walked" and not may_loop:
                yield at
        else:
            state[at] = "done"
            walk.pop()


def unbounded_copies(code):
    """Tests of a register just after a 32-bit copy of it was made, where it is the copy that then indexes."""
    for at in range(len(code) - 1):
        operation, registers, _, _ = code[at]
        tested, tested_registers, offset, _ = code[at + 1]
        source, copy = registers >> 4, registers & 15
        if operation != MOVE_REGISTER_32 or source == copy or tested & 7 not in CLASS_JUMPS or tested & 0xF0 not in BOUNDS:
            continue
        if tested_registers & 15 == source and any(indexes_with(code, start, copy) for start in (at + 2, at + 2 + offset)):
            yield at


def indexes_with(code, start, register):
    """Whether the straight code from there scales the register and adds it to another, without a test of it."""
    names, scaled = {register}, False
    for operation, registers, _, _ in code[start:start + STRAIGHT]:
        source, target = registers >> 4, registers & 15
        if operation & 7 in CLASS_JUMPS and operation not in (CALL,):
            return False
        if operation in (MOVE_REGISTER, MOVE_REGISTER_32):
            (names.add if source in names else names.discard)(target)
        elif operation == SHIFT_LEFT and target in names:
            scaled = True
        elif operation == ADD_REGISTER and source in names and target not in names:
            return scaled
        elif operation & 7 in (0, 1, 4, 7) and operation != SHIFT_LEFT:
            names.discard(target)
    return False


def deepest_chain(program, function, stacks, callees, above=()):
    """The chain of calls with the largest sum of rounded stacks, below a function."""
    chain = above + (function,)
    if len(chain) > 2 * FRAMES_MAX:
        return chain
    chains = [deepest_chain(program, callee, stacks, callees, chain) for callee in callees[function]] or [chain]
    return max(chains, key=lambda c: (sum(rounded(stacks[f]) for f in c), len(c)))


def rounded(stack):
    return -(-max(stack, 1) // STACK_ROUNDS_TO) * STACK_ROUNDS_TO


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = Object(sys.argv[1])
    stacks, callees, offences = {}, {}, 0
    for (section, start), (name, count) in program.functions.items():
        code = program.instructions(section, start, count)
        stacks[section, start] = stack_of(code)
        called = (program.called(section, start + i, instruction) for i, instruction in enumerate(code))
        callees[section, start] = {function for function in called if function}
        for at in fall_through_loops(code):
            offences += 1
            print(f"{name}: instruction {start + at} falls through to the head of its loop; unroll the loop or make its body "
                  "end with a jump")
        for at in unbounded_copies(code):
            offences += 1
            print(f"{name}: instruction {start + at} copies 32 bits, then the other register is tested and the copy indexes; "
                  "make the value opaque (asm volatile) before it is tested")
    unknown = {function for called in callees.values() for function in called} - set(stacks)
    if unknown:
        sys.exit(f"calls to what is no function: {unknown}")
    entries = set(stacks) - {function for called in callees.values() for function in called}
    for entry in entries:
        chain = deepest_chain(program, entry, stacks, callees)
        total = sum(rounded(stacks[f]) for f in chain)
        if total > STACK_MAX or len(chain) > FRAMES_MAX:
            offences += 1
            print(" -> ".join(f"{program.functions[f][0]} {stacks[f]}" for f in chain) +
                  f": together {total} bytes of stack (at most {STACK_MAX}), {len(chain)} frames (at most {FRAMES_MAX})")
    print(f"old_verifier: {len(entries)} programs, {len(stacks)} functions, {offences} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
