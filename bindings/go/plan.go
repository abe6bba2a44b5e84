package pantile

/*
#include "bridge.h"
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Range is bytes of a shard.
type Range struct{ Column, Offset, Bytes int }

// Plan is the cheapest reads for ranges of shards while others are lost.
type Plan struct {
	mutex   sync.RWMutex // calls read, Close writes
	plan    *C.pantile_plan
	reads   []Range
	need    []int // bytes that Run touches, by column
	cost    uint64
	atLeast uint64
}

// Plan plans the cheapest reads for the wanted ranges of a stripe, of elements of so many bytes,
// while the lost columns cannot be read. Without wanted ranges the lost columns are wanted. Costs
// has the cost of a byte of each column, up to 1,000,000; nil stands for 1 each.
func (c *Codec) Plan(element int, lost []int, wanted []Range, costs []uint32) (*Plan, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	if element < 1 {
		return nil, refuse("elements of %d bytes", element)
	}
	columns := make([]C.size_t, len(lost)+1) // never empty, so that it has an address
	whole := wanted == nil
	for i, column := range lost {
		if column < 0 || column >= len(c.rows) {
			return nil, refuse("column %d is lost; the last one of %s is %d", column, c.spec, len(c.rows)-1)
		}
		columns[i] = C.size_t(column)
		if whole {
			wanted = append(wanted, Range{column, 0, element * c.rows[column]})
		}
	}
	p := &Plan{need: make([]int, len(c.rows))}
	ranges := make([]C.pantile_range, len(wanted)+1)
	for i, one := range wanted {
		if one.Column < 0 || one.Offset < 0 || one.Bytes < 0 {
			return nil, refuse("wanted range %d (%v) is negative", i, one)
		}
		ranges[i] = C.pantile_range{C.size_t(one.Column), C.size_t(one.Offset), C.size_t(one.Bytes)}
	}
	var price *C.uint32_t
	if len(costs) > 0 {
		price = (*C.uint32_t)(unsafe.Pointer(&costs[0]))
	}
	var why C.pantile_error
	if C.pantile_plan_new(c.codec, C.size_t(element), &columns[0], C.size_t(len(lost)), &ranges[0],
		C.size_t(len(wanted)), price, C.size_t(len(costs)), &p.plan, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	runtime.SetFinalizer(p, (*Plan).Close)
	var need C.size_t
	C.pantile_plan_reads(p.plan, nil, 0, &need, nil)
	list := make([]C.pantile_range, need+1)
	if C.pantile_plan_reads(p.plan, &list[0], need, &need, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	for _, one := range list[:need] {
		p.reads = append(p.reads, Range{int(one.column), int(one.offset), int(one.bytes)})
	}
	for _, ranges := range [][]Range{p.reads, wanted} {
		for _, one := range ranges {
			if end := one.Offset + one.Bytes; end > p.need[one.Column] {
				p.need[one.Column] = end
			}
		}
	}
	var cost, atLeast C.uint64_t
	if C.pantile_plan_cost(p.plan, &cost, &atLeast, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	p.cost, p.atLeast = uint64(cost), uint64(atLeast)
	return p, nil
}

// Close gives the memory of the plan back, as Codec.Close.
func (p *Plan) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	C.pantile_plan_free(p.plan)
	p.plan = nil
	return nil
}

// Reads returns the ranges to read, ascending.
func (p *Plan) Reads() []Range { return append([]Range(nil), p.reads...) }

// Cost returns the sum of bytes times cost, and a proven lower bound: no reads are cheaper if they
// are equal.
func (p *Plan) Cost() (cost, atLeast uint64) { return p.cost, p.atLeast }

// Run computes the wanted ranges in place from those of Reads. A shard is needed up to the end of
// its last range that is read or wanted; others can be missing.
func (p *Plan) Run(shards [][]byte) error {
	p.mutex.RLock()
	defer p.mutex.RUnlock()
	if p.plan == nil {
		return refuse("the plan is closed")
	}
	if len(shards) != len(p.need) {
		return refuse("%d shards; a stripe of this plan has %d", len(shards), len(p.need))
	}
	for column, need := range p.need {
		if len(shards[column]) < need {
			return refuse("shard %d has %d bytes; the plan needs its first %d", column, len(shards[column]), need)
		}
	}
	_, err := cross(C.pantile_go_request{
		call:   C.PANTILE_GO_RUN,
		handle: C.uintptr_t(uintptr(unsafe.Pointer(p.plan))),
	}, shards)
	return err
}
