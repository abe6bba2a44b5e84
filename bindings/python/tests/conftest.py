"""Shared parts of the tests: the place of the repository, and small stripes of many codes."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

# One row a column, XORs with parity in every column, groups, add-ons, two rows a column.
SPECS = ["rs:4+2", "raid5:5", "raid6:5", "dcode:5", "rdp:6", "lrc:6,2,2", "shec:6,4,3", "raidq:6+4", "crs:4+2", "lch:9+5"]


@pytest.fixture(params=SPECS)
def spec(request):
    return request.param
