package pantile

/*
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
)

// Verdict is the kind of a finding.
type Verdict int

// The columns of a finding are the wrong ones; or one of several explanations; or there are none.
const (
	Located     Verdict = C.PANTILE_LOCATED
	Ambiguous   Verdict = C.PANTILE_AMBIGUOUS
	Unlocatable Verdict = C.PANTILE_UNLOCATABLE
)

// Finding is a range of bytes, the same in every element, in which a stripe is wrong.
type Finding struct {
	Offset, Bytes int
	Verdict       Verdict
	EvidenceBits  int  // a larger error looks so less than once in 2 to this power
	IsCertain     bool // that is less than once in 2^40, for all that is wrong in the stripe
	Columns       []int
}

// String returns the range and the columns.
func (f Finding) String() string {
	likely := "certain"
	if !f.IsCertain {
		likely = "not certain"
	}
	return fmt.Sprintf("bytes %d to %d: columns %v, %s", f.Offset, f.Offset+f.Bytes, f.Columns, likely)
}

// Locate returns which shards are wrong, and where, without checksums; none if the stripe is true.
// Missing shards are no findings. Too few to check anything are the error NothingToCheck.
func (c *Codec) Locate(shards [][]byte) ([]Finding, error) {
	if isTrue, err := c.Verify(shards); isTrue || err != nil {
		return nil, err // the cheapest way to learn that there is nothing to locate
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	element, err := c.element(shards, true)
	if err != nil {
		return nil, err
	}
	for room := 16; ; {
		list := make([]C.pantile_finding, room)
		request := c.request(C.PANTILE_GO_LOCATE, element)
		request.findings, request.room = &list[0], C.size_t(room)
		need, err := cross(request, shards)
		if errors.Is(err, Status(C.PANTILE_TOO_SMALL)) {
			room = need
			continue
		}
		if err != nil {
			return nil, err
		}
		findings := make([]Finding, need)
		for i, one := range list[:need] {
			findings[i] = Finding{
				int(one.offset), int(one.bytes), Verdict(one.verdict), int(one.evidence_bits),
				one.is_certain != 0, nil,
			}
			for _, column := range one.columns[:one.column_count] {
				findings[i].Columns = append(findings[i].Columns, int(column))
			}
		}
		return findings, nil
	}
}

// Correct corrects the certain findings of Locate, after checking them again; the same shards are
// missing. It returns the bytes of an element that were corrected.
func (c *Codec) Correct(shards [][]byte, findings []Finding) (int, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	element, err := c.element(shards, true)
	if err != nil || len(findings) == 0 {
		return 0, err
	}
	list := make([]C.pantile_finding, len(findings))
	for i, one := range findings {
		isVerdict := one.Verdict >= Located && one.Verdict <= Unlocatable
		if one.Offset < 0 || one.Bytes < 0 || !isVerdict || len(one.Columns) > len(list[i].columns) {
			return 0, refuse("finding %d (%v) is none of Locate", i, one)
		}
		list[i].offset, list[i].bytes = C.size_t(one.Offset), C.size_t(one.Bytes)
		list[i].verdict, list[i].evidence_bits = C.pantile_verdict(one.Verdict), C.uint32_t(one.EvidenceBits)
		if one.IsCertain {
			list[i].is_certain = 1
		}
		list[i].column_count = C.uint16_t(len(one.Columns))
		for place, column := range one.Columns {
			if column < 0 || column >= len(c.rows) {
				return 0, refuse("finding %d (%v) has column %d; the last is %d", i, one, column, len(c.rows)-1)
			}
			list[i].columns[place] = C.uint16_t(column)
		}
	}
	request := c.request(C.PANTILE_GO_CORRECT, element)
	request.findings, request.room = &list[0], C.size_t(len(list))
	return cross(request, shards)
}
