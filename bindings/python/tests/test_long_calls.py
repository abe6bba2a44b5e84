"""Sealed files by way of Python, and long calls that end on request."""

import signal
import subprocess
import sys
import time

import pantile
import pytest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "photos").mkdir()
    for i in range(5):
        (tmp_path / "photos" / f"{i}.raw").write_bytes(bytes([i]) * (i * 100_001))
    return tmp_path


def test_a_set_is_sealed_verified_healed_and_unsealed(folder):
    heard = []
    report = pantile.seal(folder / "photos", folder / "shards", pantile.Code("rs:4+2"), exclude=["4.raw"],
                          progress=lambda *far: heard.append(far))
    assert (report.files, report.code, report.excluded, report.tolerance) == (4, "rs:4+2", 1, 2)
    assert heard and all(isinstance(name, str) and 0 <= done for name, done, _ in heard)
    shards = sorted((folder / "shards").glob("*.shard"))
    assert pantile.verify(str(folder / "shards")).clean
    shards[0].unlink()
    with shards[3].open("r+b") as shard:
        shard.seek(60_000)
        shard.write(b"X")
    found = pantile.verify(shards[1:], name="photos")
    assert not found.clean and found.recoverable and found.shards[0].status.kind == "missing"
    assert len(pantile.heal(folder / "shards").shards_written) == 2
    assert pantile.verify(folder / "shards").clean
    assert pantile.unseal(folder / "shards", folder / "back", patterns=["3.raw"]).files == 1
    assert (folder / "back" / "3.raw").read_bytes() == (folder / "photos" / "3.raw").read_bytes()
    [shard.unlink() for shard in shards[:3]]
    with pytest.raises(pantile.SealError, match="bring back"):
        pantile.heal(folder / "shards")


def test_originals_are_healed_where_they_are_named(folder):
    pantile.seal([folder / "photos"], folder / "parity", "raid6:3", mode="beside")
    whole = (folder / "photos" / "2.raw").read_bytes()
    (folder / "photos" / "2.raw").unlink()
    assert not pantile.verify(folder / "parity").clean
    pantile.heal(folder / "parity", disks={"photos": folder / "photos"})
    assert (folder / "photos" / "2.raw").read_bytes() == whole


def test_exceptions_of_progress_end_the_work(folder):
    class Enough(Exception):
        pass

    def enough(*_):
        raise Enough

    with pytest.raises(Enough):
        pantile.seal(folder / "photos", folder / "shards", "rs:4+2", progress=enough)
    # Nothing half done is left that would be in the way.
    pantile.seal(folder / "photos", folder / "shards", "rs:4+2")
    assert pantile.verify(folder / "shards").clean


def test_another_interpreter_of_the_process_is_refused():
    other = """if True:
        try:
            import pantile
        except ImportError as error:
            assert "another interpreter" in str(error) or "subinterpreters" in str(error), error
        else:
            raise AssertionError("imported")
    """
    program = (
        "import pantile, sys\n"
        "try:\n"
        "    import _interpreters as interpreters\n"
        "except ImportError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        f"failure = interpreters.run_string(interpreters.create(), f'import sys; sys.path[:] = {{sys.path}}\\n' + {other!r})\n"
        "assert failure is None, failure\n"
        "try:\n"
        "    pantile.Codec('nope:1')\n"
        "except pantile.CodeError:\n"
        "    print('as before')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "as before\n"), done.stderr


def test_control_c_ends_a_proof():
    program = (
        "import pantile\n"
        "code = pantile.Code('shec:40,20,10')\n"
        "print('begins', flush=True)\n"
        "code.prove(sets_most=10**18)\n"
        "print('ended')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as child:
        assert child.stdout.readline() == "begins\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        said, complained = child.communicate()
    assert said == "" and complained.rstrip().endswith("KeyboardInterrupt"), (said, complained)
