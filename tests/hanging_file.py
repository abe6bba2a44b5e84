#!/usr/bin/python3
"""A file system with one file, `disk`, whose server stops answering when it is asked to.

    hanging_file.py MOUNTPOINT IMAGE RULES

IMAGE holds the bytes. RULES names a file: while it contains a word, requests of that kind get no
answer, as from the server of another host that has stopped: lookup, getattr, open, read, write,
fsync, flush (of close), release, statfs; `all` is every kind. A word may end with =SECONDS: such
requests are answered later. The rules are read at each request. SIGSTOP stops all of it.

It speaks to /dev/fuse itself, so it needs fusermount3 (or root) and no library. Its death frees
everybody who waits: the kernel ends all requests when the descriptor is closed.
"""

import array
import os
import socket
import struct
import subprocess
import sys
import threading
import time

KINDS = {1: 'lookup', 3: 'getattr', 14: 'open', 15: 'read', 16: 'write', 17: 'statfs',
         18: 'release', 20: 'fsync', 25: 'flush', 4: 'setattr', 43: 'fallocate', 52: 'statx'}
INIT, FORGET, INTERRUPT, BATCH_FORGET, ACCESS, OPENDIR, RELEASEDIR, DESTROY = 26, 2, 36, 42, 34, 27, 29, 38
ENOENT, ENOSYS, EIO = 2, 38, 5
LONGEST_WRITE = 128 * 1024


def mount(where):
    """Mounts by fusermount3, which a user may call, and returns the descriptor of /dev/fuse."""
    own, other = socket.socketpair()
    environment = dict(os.environ, _FUSE_COMMFD=str(other.fileno()))
    subprocess.run(['fusermount3', '-o', 'rw,fsname=hanging', where], env=environment,
                   pass_fds=[other.fileno()], check=True)
    descriptors = array.array('i', [0])
    _, ancillary, _, _ = own.recvmsg(1, socket.CMSG_LEN(descriptors.itemsize))
    descriptors.frombytes(ancillary[0][2][:4])
    return descriptors[-1]


class Server:
    def __init__(self, fuse, image, rules):
        self.fuse, self.rules = fuse, rules
        self.disk = os.open(image, os.O_RDWR)

    def attributes(self, node):
        size = os.fstat(self.disk).st_size if node == 2 else 0
        mode = 0o100600 if node == 2 else 0o40700
        blocks = (size + 511) // 512
        return struct.pack('<6Q10I', node, size, blocks, 0, 0, 0, 0, 0, 0,
                           mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)

    def wait(self, kind):
        while True:
            try:
                with open(self.rules, encoding='ascii') as file:
                    words = dict((word + '=').split('=')[:2] for word in file.read().split())
            except OSError:
                words = {}
            seconds = words.get(kind, words.get('all'))
            if seconds is None:
                return
            if seconds:
                time.sleep(float(seconds))
                return
            time.sleep(0.02)

    def answer(self, unique, error=0, body=b''):
        try:
            os.write(self.fuse, struct.pack('<IiQ', 16 + len(body), -error, unique) + body)
        except OSError:
            pass  # it was interrupted

    def serve(self, opcode, unique, node, body):
        self.wait(KINDS.get(opcode, 'other'))
        kind = KINDS.get(opcode)
        if kind == 'lookup':
            if body.rstrip(b'\0') != b'disk':
                return self.answer(unique, ENOENT)
            # Names and attributes are asked for again each time.
            return self.answer(unique, 0, struct.pack('<4Q2I', 2, 0, 0, 0, 0, 0) + self.attributes(2))
        if kind == 'getattr':
            return self.answer(unique, 0, struct.pack('<Q2I', 0, 0, 0) + self.attributes(node))
        if kind == 'open' or opcode == OPENDIR:
            return self.answer(unique, 0, struct.pack('<Q2I', 1, 0, 0))
        if kind == 'read':
            _, offset, size = struct.unpack('<2QI', body[:20])
            return self.answer(unique, 0, os.pread(self.disk, size, offset))
        if kind == 'write':
            _, offset, size = struct.unpack('<2QI', body[:20])
            os.pwrite(self.disk, body[40:40 + size], offset)
            return self.answer(unique, 0, struct.pack('<2I', size, 0))
        if kind == 'statfs':
            return self.answer(unique, 0, struct.pack('<5Q4I24x', 1, 1, 1, 1, 1, 4096, 255, 4096, 0))
        if kind in ('fsync', 'flush', 'release') or opcode in (RELEASEDIR, ACCESS):
            return self.answer(unique)
        return self.answer(unique, ENOSYS)

    def run(self):
        while True:
            try:
                request = os.read(self.fuse, LONGEST_WRITE + 65536)
            except OSError:
                return
            if not request:
                return
            _, opcode, unique, node = struct.unpack('<2I2Q', request[:24])
            body = request[40:]
            if opcode == INIT:
                self.answer(unique, 0, struct.pack('<4I2H2I2H8I', 7, 31, LONGEST_WRITE, 1 << 0,
                                                   64, 48, LONGEST_WRITE, 1, 32, 0, *[0] * 8))
            elif opcode not in (FORGET, BATCH_FORGET, INTERRUPT, DESTROY):
                # A thread for each: one that hangs keeps no other.
                threading.Thread(target=self.serve, args=(opcode, unique, node, body), daemon=True).start()


if __name__ == '__main__':
    Server(mount(sys.argv[1]), sys.argv[2], sys.argv[3]).run()
