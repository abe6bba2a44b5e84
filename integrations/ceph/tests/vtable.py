#!/usr/bin/env python3
"""Holds plugin/abi16.h or abi20.h to a Ceph: the order of the virtual functions in its libec_isa.so.

    vtable.py FOLDER-OF-PLUG-INS [abi20.h]

The order is read from the vtable of ErasureCodeIsaDefault: symbols and relocations, by nm and readelf.
"""
import re
import subprocess
import sys

CLASS = "_ZTV21ErasureCodeIsaDefault"


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def of_library(path):
    """The demangled functions of the vtable, destructors first."""
    symbols, table = {}, None
    for line in lines("nm", "-D", "-S", path):
        parts = line.split()
        if len(parts) == 4:
            symbols.setdefault(int(parts[0], 16), parts[3])
            if parts[3] == CLASS:
                table = int(parts[0], 16), int(parts[1], 16)
    if table is None:
        sys.exit(f"vtable.py: {path} has no {CLASS}; name a class that it has")
    slots = {}
    for line in lines("readelf", "-rW", path):
        parts = line.split()
        if len(parts) >= 4 and re.fullmatch("[0-9a-f]{16}", parts[0]):
            at = int(parts[0], 16)
            if parts[2] == "R_X86_64_RELATIVE":
                slots[at] = symbols.get(int(parts[3], 16), "?")
            elif parts[2] == "R_X86_64_64":
                slots[at] = parts[4]
    first = table[0] + 16
    mangled = [slots.get(at, "?") for at in range(first, table[0] + table[1], 8)]
    names = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True)
    return names.stdout.splitlines()


def name(function):
    """What stands before the arguments, without its class."""
    return re.sub(r"<[^()]*>|\[abi:\w+\]", "", function.split("(")[0]).split("::")[-1]


def of_header(path):
    text = open(path).read()
    body = text[text.index("class FirstSlots") : text.index("using ErasureCodePlugin")]
    # Where Ceph has two functions of one name, one is called *_of_something in the header.
    names = [re.sub("_of_.*", "", name) for name in re.findall(r"virtual [^;{]*?(~?\w+)\(", body)]
    return [names[0], names[0]] + names[1:]


def main():
    library = sys.argv[1] + "/libec_isa.so"
    header = __file__.rsplit("/", 2)[0] + "/plugin/" + (sys.argv[2] if len(sys.argv) > 2 else "abi16.h")
    have, want = [name(function) for function in of_library(library)], of_header(header)
    # A destructor is named for its class; the built-in's own functions come last.
    have[:2] = want[:2] if all(of.startswith("~") for of in have[:2]) else have[:2]
    if have[: len(want)] != want:
        sys.exit(f"vtable.py: {library} has another interface than {header}:\n{have}\n{want}")
    print(f"{library}: {len(want)} slots in the order of {header}")


main()
