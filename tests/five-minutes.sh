#!/usr/bin/env bash
# From an installed prefix, in an empty folder: the commands and programs of the pages are pasted,
# compiled and run, and their output is compared with the pages. Bounded: some seconds once Pantile
# is installed.
#
#   tests/five-minutes.sh                 # installs into a temporary folder first
#   tests/five-minutes.sh /usr/local
#   tests/five-minutes.sh /usr/local go   # docs/go.md in the place of docs/c.md
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need gcc gcc
need g++ g++
need pkg-config pkg-config
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=${1:-$work/prefix} page=${2:-c}
[ $# -gt 0 ] || tools/install.sh --prefix "$prefix" --profile test

# A page's fenced blocks. A block whose first line names a file is that file. In a block of
# `console` the text after "$ " is typed, and the rest is the expected output.
cat >"$work/paste.py" <<'PY'
import os, re, subprocess, sys

page, prefix = sys.argv[1:]
text = open(page, encoding="utf-8").read()
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
environment = dict(os.environ, PREFIX=prefix, CHECKOUT=os.path.dirname(os.path.dirname(page)), LC_ALL="C.UTF-8")
files = typed = 0
for kind, block in blocks:
    name = re.match(r"(?://|/\*|#) (\w+\.\w+)", block)
    if name:
        open(name[1], "w", encoding="utf-8").write(block)
        files += 1
    if kind != "console":
        continue
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, said = part.split("\n", 1)
        # What is exported stays so for the commands that follow.
        run = f"{command}\nstatus=$?; env -0 >.environment; exit $status"
        ran = subprocess.run(["bash", "-c", run], env=environment, capture_output=True, text=True, timeout=60)
        pairs = open(".environment", encoding="utf-8").read().split("\0")
        environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if ran.returncode or ran.stdout + ran.stderr != said:
            sys.exit(f"{page}: $ {command}\nstatus {ran.returncode}, said:\n{ran.stdout}{ran.stderr}instead of:\n{said}")
        typed += 1
if not files or not typed:
    sys.exit(f"{page}: nothing to paste, or nothing to type")
print(f"{page}: {files} programs pasted, {typed} commands typed")
PY

mkdir "$work/$page"
cd "$work/$page"
python3 "$work/paste.py" "$here/docs/$page.md" "$prefix"
