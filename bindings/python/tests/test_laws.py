"""The laws of a code hold through the bindings, for data and losses of any kind."""

import functools
import itertools
import operator
import pickle

import pantile
import pytest
from conftest import SPECS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CODECS = {spec: pantile.Codec(spec) for spec in SPECS}
any_codec = st.sampled_from(SPECS).map(CODECS.__getitem__)
quick = settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


@quick
@given(any_codec, st.binary(max_size=2000), st.data())
def test_lost_columns_are_recovered(codec, data, draw):
    code = codec.code
    shards = codec.encode(data)
    assert codec.join(shards, len(data)) == data and codec.verify(shards) and codec.locate(shards) == []
    lost = draw.draw(st.sets(st.integers(0, code.columns - 1), max_size=code.tolerance))
    there = [None if column in lost else shard for column, shard in enumerate(shards)]
    assert codec.reconstruct(there) == shards
    again = [bytearray(len(shard)) for shard in shards]
    of_data = {column for _, column in code.data}
    for column in of_data:
        again[column][:] = shards[column]
    codec.encode_into(again)
    assert again == shards


@quick
@given(any_codec, st.binary(min_size=1, max_size=2000), st.data())
def test_an_update_equals_encoding_the_new_content(codec, data, draw):
    element = codec.element_len(len(data))
    position = draw.draw(st.integers(0, len(codec.code.data) - 1))
    offset = draw.draw(st.integers(0, element))
    new = draw.draw(st.binary(max_size=element - offset))
    whole = bytearray(element * len(codec.code.data))
    whole[: len(data)] = data
    shards = [bytearray(shard) for shard in codec.encode(whole)]
    codec.update(shards, position, new, offset=offset)
    at = position * element + offset
    whole[at : at + len(new)] = new
    assert shards == codec.encode(whole)


@quick
@given(st.binary(min_size=4000, max_size=8000), st.integers(0, 9), st.binary(min_size=20, max_size=60))
def test_one_lie_is_located(data, column, lie):
    codec = pantile.Codec("rs:6+4")
    shards = codec.encode(data)
    told = bytearray(shards[column])
    told[100 : 100 + len(lie)] = lie
    lying = [bytes(told) if i == column else shard for i, shard in enumerate(shards)]
    found = codec.locate(lying)
    assert codec.verify(lying) == (found == []) == (bytes(told) == shards[column])
    for finding in found:
        assert (finding.kind, finding.columns) == ("located", [column]), finding
        assert 100 <= finding.start < finding.end <= 100 + len(lie)


def test_every_pair_of_columns_of_a_wide_code_is_recovered():
    codec = pantile.Codec("dcode:7")
    data = bytes(range(256)) * 3
    shards = codec.encode(data)
    for lost in itertools.combinations(range(7), 2):
        assert codec.reconstruct([None if i in lost else s for i, s in enumerate(shards)]) == shards


def test_a_code_says_what_it_is(spec):
    code = pantile.Code(spec)
    assert pickle.loads(pickle.dumps(code)) == code and hash(pantile.Code(spec)) == hash(code)
    assert len(code.data) + len(code.parity) == len(code.cells) == sum(code.rows)
    assert set(code.data) | set(code.parity) == set(code.cells)
    assert {equation.label for equation in code.equations} == {x for all in code.labels.values() for x in all}
    own = pantile.Code.from_text(code.to_text())
    assert own.fingerprint == code.fingerprint and own.family == "custom"
    assert pickle.loads(pickle.dumps(own)) == own != code
    again = pickle.loads(pickle.dumps(pantile.Codec(own)))
    assert again.code == own and again.encode(bytes(99)) == pantile.Codec(own).encode(bytes(99))
    assert pickle.loads(pickle.dumps(pantile.Codec("dcode:9,raw", for_study=True))).code == pantile.Code("dcode:9,raw")
    proof = code.prove(lost_most=code.tolerance + 1)
    assert proof.holds and proof.tolerance >= code.tolerance
    # Equations hold for the bytes of a stripe.
    if code.is_xor and set(code.rows) == {1}:
        shards = pantile.Codec(code).encode(b"0123456789" * 10)
        for equation in code.equations:
            columns = [shards[column] for (_, column), _ in equation.terms]
            assert all(functools.reduce(operator.xor, bytes_at) == 0 for bytes_at in zip(*columns))


def test_a_plan_reads_what_it_says():
    plan = pantile.plan("dcode:7", lost=[2, 3])
    assert plan.outputs == [(row, column) for column in (2, 3) for row in range(7)]
    assert sum(plan.reads_per_column) == len(plan.reads) == plan.cost and plan.reads_per_column[2] == 0
    assert plan.is_exact and {target for target, _ in plan.steps} >= set(plan.outputs)
    away = pantile.plan("rs:6+3", lost=[0], costs={8: 50, 1: 50})
    assert away.reads_per_column == [0, 0, 1, 1, 1, 1, 1, 1, 0]
    one = pantile.plan("lrc:12,2,2", lost=[0], wanted=[(0, 0)])
    assert len(one.reads) == 6 and one.is_exact


@quick
@given(any_codec, st.binary(min_size=1, max_size=3000), st.data())
def test_a_plan_that_runs_gives_the_lost_cells(codec, data, draw):
    code, shards = codec.code, codec.encode(data)
    element = codec.element_len(len(data))

    def cell(place):
        row, column = place
        return shards[column][row * element : (row + 1) * element]

    lost = draw.draw(st.sets(st.integers(0, code.columns - 1), max_size=code.tolerance))
    wanted = draw.draw(st.sets(st.sampled_from(code.cells), max_size=5))
    start = draw.draw(st.integers(0, element - 1))
    plan = pantile.plan(code, lost=sorted(lost), wanted=sorted(wanted))
    for part in [slice(None), slice(start, start + 7)]:
        contents = [cell(place)[part] for place in plan.reads]
        assert plan.run(contents) == [cell(place)[part] for place in plan.outputs]


def test_a_plan_refuses_other_contents():
    plan = pantile.plan("rs:4+2", lost=[0])
    with pytest.raises(pantile.ShapeError, match="reads 4 cells, the content of 3 was given"):
        plan.run([b"a"] * 3)
    with pytest.raises(pantile.ShapeError, match="another has 2"):
        plan.run([b"a", b"a", b"ab", b"a"])
    with pytest.raises(TypeError, match=r"cell \(0, 2\) is .*str"):
        plan.run([b"a", "a", b"a", b"a"])
    assert pantile.plan("rs:4+2", lost=[]).run([]) == []


def test_witnesses_are_fatal():
    code = pantile.Code("shec:6,4,3")
    proof = code.prove()
    assert (proof.tolerance, proof.is_exact, proof.is_cut) == (2, True, False)
    assert [level.survived == level.sets for level in proof.levels[:3]] == [True, True, False]
    shards = pantile.Codec(code).encode(b"a" * 60)
    for witness in proof.fatal:
        try:
            pantile.Codec(code).reconstruct([None if i in witness else s for i, s in enumerate(shards)])
        except pantile.NotRecoverable:
            continue
        raise AssertionError(witness)
