"""Epochs of delayed parity in a volume that nbdkit serves, written by libnbd's shell."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pantile
import pytest
from conftest import ROOT

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
LENGTH = 1 << 20


def pantile_command(*words, status=0):
    done = subprocess.run([TARGET / "debug/pantile", *words], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout


def nbd(uri, code):
    # libnbd's module is of the distribution's Python.
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["nbdsh", "-u", uri, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(uri, byte):
    nbd(uri, f"h.pwrite(bytes([{byte}]) * {LENGTH}, 0); h.flush()")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "vol"
    pantile_command("create", str(folder), "--code", "raid5:3", "--size", "64M")
    pantile_command("serve", str(folder))
    yield folder
    pantile_command("stop", str(folder))


def content(folder):
    """The one byte of which the whole range is."""
    said = nbd(f"nbd+unix:///?socket={folder}/nbd.sock", f"print(set(h.pread({LENGTH}, 0)))")
    [byte] = eval(said)
    return byte


def wait_until_over(folder):
    for _ in range(600):
        if not json.loads(pantile_command("delayed", "status", str(folder), "--json"))["epochs"]:
            return
        time.sleep(0.1)
    raise AssertionError("it does not end")


def test_an_epoch_ends_with_its_block(folder):
    before = content(folder)
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        write(epoch.uri, 1)
        assert content(folder) == before
        assert epoch.offset == 0 and epoch.length >= LENGTH and f"epoch-{epoch.number}" in epoch.uri
    assert content(folder) == 1
    for call in (epoch.end, epoch.abort):
        with pytest.raises(pantile.EpochOver, match="has ended"):
            call()


def test_an_exception_aborts_it(folder):
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        write(epoch.uri, 2)
    with pytest.raises(ZeroDivisionError):
        with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
            write(epoch.uri, 3)
            1 / 0
    assert content(folder) == 2
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        write(epoch.uri, 4)
        epoch.abort()
    assert content(folder) == 2


@pytest.mark.parametrize(("policy", "sealed"), [("abort", False), ("seal", True)])
def test_a_silent_one_ends_by_its_policy(folder, policy, sealed):
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        write(epoch.uri, 5)
    epoch = pantile.Volume(folder).epoch(0, LENGTH, idle_most=1, on_timeout=policy)
    write(epoch.uri, 6)
    wait_until_over(folder)
    with pytest.raises(pantile.EpochOver, match="there is no epoch"):
        epoch.end()
    assert content(folder) == (6 if sealed else 5)


def test_a_program_that_dies_leaves_no_trace(folder):
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        write(epoch.uri, 7)
    dies = f"import pantile, os; epoch = pantile.Volume({str(folder)!r}).epoch(0, {LENGTH}); " \
        "print(epoch.uri, flush=True); input(); os.kill(os.getpid(), 9)"
    child = subprocess.Popen([sys.executable, "-c", dies], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    write(child.stdout.readline().strip(), 8)
    child.communicate("\n")
    assert child.returncode == -signal.SIGKILL
    wait_until_over(folder)
    assert content(folder) == 7


def test_what_is_refused_says_why(folder, tmp_path):
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        with pytest.raises(pantile.VolumeError, match="held by open epochs"):
            pantile.Volume(folder).epoch()
        write(epoch.uri, 9)
    with pytest.raises(pantile.VolumeError, match="ask for less"):
        pantile.Volume(folder).epoch(1 << 40, 4096)
    with pytest.raises(ValueError, match="say 'abort' or 'seal'"):
        pantile.Volume(folder).epoch(on_timeout="ignore")
    for place in (tmp_path, tmp_path / "nothing", __file__):
        with pytest.raises(pantile.NotServed, match="pantile serve"):
            pantile.Volume(place).epoch()
    (tmp_path / "control.sock").symlink_to(folder / "control.sock")
    with pytest.raises(pantile.NotServed, match="is a link"):
        pantile.Volume(tmp_path).epoch()


def test_a_killed_server_leaves_the_content_before(folder):
    with pantile.Volume(folder).epoch(0, LENGTH) as epoch:
        write(epoch.uri, 10)
    epoch = pantile.Volume(folder).epoch(0, LENGTH)
    write(epoch.uri, 11)
    status = json.loads(pantile_command("status", str(folder), "--json"))
    os.kill(status["server"]["pid"], signal.SIGKILL)
    with pytest.raises(pantile.ServerGone, match="as a whole or not at all"):
        epoch.end()
    with pytest.raises(pantile.EpochOver):
        epoch.end()
    pantile_command("serve", str(folder))
    assert content(folder) == 10


def test_the_example_goes_on_from_the_last_sealed_step(tmp_path):
    volume = str(tmp_path / "vol")
    pantile_command("create", volume, "--code", "raid6:4", "--size", "64M")
    pantile_command("serve", volume)
    # libnbd's module is of the distribution's Python, which runs the same package.
    packages = pathlib.Path(pantile.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = ["/usr/bin/python3", str(ROOT / "examples/checkpoint.py"), volume]
    sealed = 0
    for life in range(4):
        child = subprocess.Popen([*command, "1000000"], stdout=subprocess.PIPE, text=True, env=environment)
        found = int(child.stdout.readline().removeprefix("found step "))
        # The step that was being sealed may be there.
        assert sealed <= found <= sealed + 1
        sealed = int(child.stdout.readline().removeprefix("sealed step "))
        time.sleep(0.03 * life)
        child.kill()
        said = child.communicate()[0].splitlines()
        sealed = int(said[-1].removeprefix("sealed step ")) if said else sealed
    assert sealed > 3
    pantile_command("stop", volume)
