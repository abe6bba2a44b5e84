#!/usr/bin/env python3
"""Prints the source of a libec_isa.so whose vtable has the functions of plugin/abi20.h, in that order.

    isa.py [rule]       "rule": with the second create_rule of Ceph 21
    isa.py [swapped]    with two functions exchanged

It stands for the plug-in of a release that is not here: the names count, and nothing is called.
"""
import re
import sys

header = __file__.rsplit("/", 2)[0] + "/plugin/abi20.h"
text = open(header).read()
body = text[text.index("class FirstSlots") : text.index("using ErasureCodePlugin")]
functions = []
for name, arguments in re.findall(r"virtual [^;{]*?(\w+)\(((?:[^()]|\(\))*)\)[^;{]*;", body):
    functions.append((re.sub("_of_.*", "", name), bool(re.search(r"\bShard(Set|Map|Chunks|Buffers)\b", arguments))))
if "rule" in sys.argv:
    functions.insert(3, ("rule", False))
if "swapped" in sys.argv:
    functions[4], functions[5] = functions[5], functions[4]

print("#include <ostream>\n#include <string>\nclass CrushWrapper;\nstruct shard_id_t;")
print("template <unsigned long, class> struct bitset_set;\ntemplate <int> struct Other;")
declared = ["virtual ~ErasureCodeIsaDefault();"]
defined = ["ErasureCodeIsaDefault::~ErasureCodeIsaDefault() {}"]
for number, (name, has_shards) in enumerate(functions):
    arguments = "const bitset_set<128, shard_id_t> &, " if has_shards else ""
    arguments += f"Other<{number}> *"
    if name == "rule":
        name, arguments = "create_rule", "const std::string &, int, CrushWrapper &, std::ostream *"
    declared.append(f"virtual void {name}({arguments});")
    defined.append(f"void ErasureCodeIsaDefault::{name}({arguments}) {{}}")
print("class ErasureCodeIsaDefault {\npublic:\n    " + "\n    ".join(declared) + "\n};")
print("\n".join(defined))
