package pantile

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pantile/internal/inc"
)

var families = []string{
	"raid6:4", "rs:6+3", "rs:10+4", "dcode:7", "xcode:5", "shec:6,4,3", "lrc:6,2,2", "clay:4,2,5",
	"crs:4+2", "rdp:6", "mirror:3", "rs:60+3",
}

func open(t testing.TB, spec string) *Codec {
	t.Helper()
	codec, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// stripe returns an encoded stripe of random data, and the data.
func stripe(t testing.TB, c *Codec, element int) ([][]byte, []byte) {
	t.Helper()
	data := make([]byte, element*c.Shape().DataCells)
	rand.New(rand.NewSource(int64(element))).Read(data)
	shards, err := c.Split(data)
	if err != nil {
		t.Fatal(err)
	}
	return shards, data
}

func clone(shards [][]byte) [][]byte {
	all := make([][]byte, len(shards))
	for i, shard := range shards {
		all[i] = append([]byte(nil), shard...)
	}
	return all
}

func same(t *testing.T, what string, have, want [][]byte) {
	t.Helper()
	for column := range want {
		if !bytes.Equal(have[column], want[column]) {
			t.Fatalf("%s: column %d differs", what, column)
		}
	}
}

// everyLoss calls f with each set of up to `most` columns.
func everyLoss(columns, most int, f func(lost []int)) {
	for mask := uint64(1); columns <= 16 && mask < 1<<columns; mask++ {
		if bits.OnesCount64(mask) > most {
			continue
		}
		var lost []int
		for column := 0; column < columns; column++ {
			if mask>>column&1 == 1 {
				lost = append(lost, column)
			}
		}
		f(lost)
	}
	for first := 0; columns > 16 && first < columns; first++ { // of wide codes neighbours alone
		f([]int{first, (first + 1) % columns, (first + most - 1) % columns})
	}
}

func TestEveryLossUpToTheToleranceComesBack(t *testing.T) {
	for _, spec := range families {
		codec := open(t, spec)
		shape := codec.Shape()
		shards, data := stripe(t, codec, 40)
		if isTrue, err := codec.Verify(shards); err != nil || !isTrue {
			t.Fatalf("%s: an encoded stripe: %v, %v", spec, isTrue, err)
		}
		everyLoss(shape.Columns, shape.Tolerance, func(lost []int) {
			what := fmt.Sprintf("%s without %v", spec, lost)
			left := clone(shards)
			for i, column := range lost {
				if left[column] = nil; i == 0 { // an empty slice with room is filled
					left[column] = make([]byte, 0, len(shards[column]))
				}
			}
			if err := codec.Reconstruct(left); err != nil {
				t.Fatal(what, err)
			}
			same(t, what, left, shards)

			for _, column := range lost {
				left[column] = nil
			}
			if err := codec.ReconstructData(left); err != nil {
				t.Fatal(what, err)
			}
			var joined bytes.Buffer
			if err := codec.Join(&joined, left, len(data)); err != nil || !bytes.Equal(joined.Bytes(), data) {
				t.Fatalf("%s: joined: %v", what, err)
			}
		})
	}
}

func TestAnEncodedStripeIsTheSameByEachWay(t *testing.T) {
	for _, spec := range families {
		codec := open(t, spec)
		var batch, want [][][]byte
		for i := 0; i < 150; i++ {
			shards, _ := stripe(t, codec, []int{64, 64, 64, 7}[i/40])
			want = append(want, shards)
			blank := clone(shards)
			cells, err := codec.Cells()
			if err != nil {
				t.Fatal(err)
			}
			for _, cell := range cells {
				if element := len(shards[cell.Column]) / codec.Rows(cell.Column); cell.Position < 0 {
					copy(blank[cell.Column][cell.Row*element:][:element], make([]byte, element))
				}
			}
			batch = append(batch, blank)
		}
		single := clone(batch[0])
		if err := codec.Encode(single); err != nil {
			t.Fatal(spec, err)
		}
		same(t, spec, single, want[0])
		if err := codec.EncodeBatch(batch); err != nil {
			t.Fatal(spec, err)
		}
		for i := range batch {
			same(t, fmt.Sprintf("%s, stripe %d", spec, i), batch[i], want[i])
		}
	}
	codec := open(t, "rs:6+3")
	if err := codec.EncodeBatch(nil); err != nil {
		t.Fatal("no stripes:", err)
	}
	good, _ := stripe(t, codec, 16)
	twice := clone(good)
	twice[7] = twice[6] // a parity that is written overlaps another one
	err := codec.EncodeBatch([][][]byte{good, twice})
	if !errors.Is(err, Overlap) || !strings.HasPrefix(err.Error(), "stripe 1: ") {
		t.Fatal(err)
	}
	err = codec.EncodeBatch([][][]byte{good, good[:8]})
	if !errors.Is(err, BadArgument) || !strings.HasPrefix(err.Error(), "stripe 1: ") {
		t.Fatal(err)
	}
}

func TestSmallWritesKeepParityTrue(t *testing.T) {
	for _, spec := range families {
		codec := open(t, spec)
		shards, data := stripe(t, codec, 40)
		apart := clone(shards)
		for position := 0; position < codec.Shape().DataCells; position++ {
			content := []byte{byte(position), 1, 2}
			change := make([]byte, 3)
			for i := range change {
				change[i] = data[position*40+17+i] ^ content[i]
			}
			copy(data[position*40+17:], content)
			if err := codec.Update(shards, position, 17, content); err != nil {
				t.Fatal(spec, err)
			}
			if err := codec.UpdateParity(apart, position, 17, change); err != nil {
				t.Fatal(spec, err)
			}
		}
		want, err := codec.Split(data)
		if err != nil {
			t.Fatal(err)
		}
		same(t, spec, shards, want)
		cells, _ := codec.Cells()
		for _, cell := range cells {
			if part := shards[cell.Column][cell.Row*40:][:40]; cell.Position < 0 {
				if !bytes.Equal(apart[cell.Column][cell.Row*40:][:40], part) {
					t.Fatalf("%s: parity %v apart from data", spec, cell)
				}
			}
		}
	}
}

func TestAWrongShardIsNamedAndCorrected(t *testing.T) {
	codec := open(t, "rs:6+4")
	shards, _ := stripe(t, codec, 1000)
	right := clone(shards)
	copy(shards[3][500:], "a lie of 20 bytes ..")
	isTrue, err := codec.Verify(shards)
	if err != nil || isTrue {
		t.Fatal(isTrue, err)
	}
	findings, err := codec.Locate(shards)
	if err != nil || len(findings) != 1 || !findings[0].IsCertain || !reflect.DeepEqual(findings[0].Columns, []int{3}) {
		t.Fatal(findings, err)
	}
	if said := findings[0].String(); said != "bytes 500 to 520: columns [3], certain" {
		t.Fatal(said)
	}
	corrected, err := codec.Correct(shards, findings)
	if err != nil || corrected != 20 {
		t.Fatal(corrected, err)
	}
	same(t, "corrected", shards, right)
	if findings, err = codec.Locate(shards); err != nil || len(findings) != 0 {
		t.Fatal(findings, err)
	}
	many, _ := stripe(t, codec, 40_000) // more findings than the first list has room for
	for at := 0; at < len(many[2]); at += 1000 {
		many[2][at] ^= 1
	}
	if findings, err = codec.Locate(many); err != nil || len(findings) != 40 {
		t.Fatal(len(findings), err)
	}
	findings[0].Columns = []int{99}
	if _, err = codec.Correct(many, findings); !errors.Is(err, BadArgument) {
		t.Fatal(err)
	}
	shards[0], shards[1], shards[2], shards[4] = nil, nil, nil, nil
	if _, err = codec.Locate(shards); !errors.Is(err, NothingToCheck) {
		t.Fatal(err)
	}
}

func TestAPlanReadsTheLeastAndRuns(t *testing.T) {
	for _, spec := range families {
		codec := open(t, spec)
		shards, _ := stripe(t, codec, 64)
		plan, err := codec.Plan(64, []int{1}, nil, nil)
		if err != nil {
			t.Fatal(spec, err)
		}
		left := make([][]byte, len(shards)) // what is not read stays zero
		for column := range left {
			left[column] = make([]byte, len(shards[column]))
		}
		sum := 0
		for _, read := range plan.Reads() {
			copy(left[read.Column][read.Offset:][:read.Bytes], shards[read.Column][read.Offset:])
			sum += read.Bytes
		}
		if cost, atLeast := plan.Cost(); cost != uint64(sum) || atLeast > cost {
			t.Fatalf("%s: cost %d, at least %d, %d bytes read", spec, cost, atLeast, sum)
		}
		if err := plan.Run(left); err != nil || !bytes.Equal(left[1], shards[1]) {
			t.Fatalf("%s: column 1 is wrong: %v", spec, err)
		}
	}
	codec := open(t, "lrc:12,2,2")
	costs := make([]uint32, 16)
	for i := range costs {
		costs[i] = 1
	}
	costs[0] = 100
	plan, err := codec.Plan(4096, []int{4}, []Range{{4, 8, 16}}, costs)
	if err != nil || plan.Reads()[0].Column == 0 {
		t.Fatal(plan, err)
	}
	if err := plan.Run(make([][]byte, 16)); !errors.Is(err, BadArgument) {
		t.Fatal(err)
	}
	plan.Close()
	plan.Close()
	if err := plan.Run(make([][]byte, 16)); !errors.Is(err, BadArgument) {
		t.Fatal(err)
	}
}

func TestACodeDescribesItself(t *testing.T) {
	codec := open(t, "raid6:4")
	shape := codec.Shape()
	if shape.Columns != 6 || shape.Tolerance != 2 || !shape.IsMDS || codec.Spec() != "raid6:4" || codec.Rows(6) != 0 {
		t.Fatalf("%+v", shape)
	}
	equations, err := codec.Equations()
	if err != nil || len(equations) != 2 || len(equations[0]) != 5 {
		t.Fatal(equations, err)
	}
	text, err := codec.Text()
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewFromText(text)
	if err != nil || again.Shape().Columns != 6 {
		t.Fatal(again, err)
	}
	tolerance, fatal, err := open(t, "shec:6,4,3").Prove()
	if err != nil || tolerance != 2 || len(fatal) != 3 {
		t.Fatal(tolerance, fatal, err)
	}
	if Version() == "" {
		t.Fatal("the library has no version")
	}
}

func TestWrongInputIsAnErrorAndChangesNothing(t *testing.T) {
	for _, spec := range []string{"", "rs", "rs:0+2", "rs:300+4", "no:such", "rs:4+2\x00", "\xff\xfe", strings.Repeat("9", 100_000)} {
		if codec, err := New(spec); codec != nil || !errors.Is(err, BadCode) || err.Error() == "" {
			t.Fatalf("%.20q: %v, %v", spec, codec, err)
		}
	}
	if _, err := NewFromText("no code\x00"); !errors.Is(err, BadCode) {
		t.Fatal(err)
	}
	codec := open(t, "rs:6+3")
	shards, data := stripe(t, codec, 100)
	before := clone(shards)
	without := func(columns ...int) [][]byte {
		some := append([][]byte(nil), shards...)
		for _, column := range columns {
			some[column] = nil
		}
		return some
	}
	short := append([][]byte(nil), shards...)
	short[8] = short[8][:99]
	joined := func(shards [][]byte, size int) error { return codec.Join(&bytes.Buffer{}, shards, size) }
	verified := func(shards [][]byte) error { _, err := codec.Verify(shards); return err }
	planned := func(element int, lost []int, wanted []Range, costs []uint32) error {
		_, err := codec.Plan(element, lost, wanted, costs)
		return err
	}
	split := func(data []byte) error { _, err := codec.Split(data); return err }
	for i, c := range []struct {
		err  error
		kind Status
	}{
		{codec.Encode(nil), BadArgument},
		{codec.Encode(shards[:8]), BadArgument},
		{codec.Encode(without(3)), BadArgument},
		{codec.Encode(short), BadArgument},
		{codec.Encode(make([][]byte, 9)), BadArgument},
		{codec.Encode(append(shards[:8:8], shards[7])), Overlap},
		{codec.Reconstruct(without(0, 1, 2, 3)), NotRecoverable},
		{codec.Reconstruct(short), BadArgument},
		{codec.Reconstruct(make([][]byte, 9)), BadArgument},
		{codec.ReconstructSome(without(0), nil), BadArgument},
		{codec.Update(shards, 6, 0, []byte{1}), BadArgument},
		{codec.Update(shards, -1, 0, []byte{1}), BadArgument},
		{codec.Update(shards, 0, 100, []byte{1}), BadArgument},
		{codec.Update(shards, 0, 0, nil), BadArgument},
		{codec.Update(shards, 0, 0, shards[8][:1]), Overlap},
		{codec.Update(without(7), 0, 0, []byte{1}), NullPointer},
		{verified(without(0, 1, 2)), NothingToCheck},
		{verified(short), BadArgument},
		{joined(shards, 601), BadArgument},
		{joined(shards, -1), BadArgument},
		{joined(without(0), 600), NullPointer},
		{split(nil), BadArgument},
		{planned(0, nil, nil, nil), BadArgument},
		{planned(-1, []int{0}, nil, nil), BadArgument},
		{planned(10, []int{9}, nil, nil), BadArgument},
		{planned(10, []int{0, 1, 2, 3}, nil, nil), NotRecoverable},
		{planned(10, nil, []Range{{0, 5, 6}}, nil), BadArgument},
		{planned(10, nil, []Range{{9, 0, 1}}, nil), BadArgument},
		{planned(10, nil, []Range{{0, -5, 6}}, nil), BadArgument},
		{planned(10, []int{0}, nil, []uint32{1}), BadArgument},
	} {
		if !errors.Is(c.err, c.kind) || c.err.Error() == "" {
			t.Errorf("case %d: %v, not %v", i, c.err, c.kind)
		}
	}
	same(t, "after refusals", shards, before)
	if err := joined(without(6, 7, 8), len(data)); err != nil {
		t.Fatal("parity is not looked at:", err)
	}
	if err := codec.ReconstructData(without(6)); err != nil {
		t.Fatal("no data are missing:", err)
	}
}

func TestAClosedCodecRefusesCalls(t *testing.T) {
	codec := open(t, "rs:4+2")
	shards, _ := stripe(t, codec, 10)
	plan, err := codec.Plan(10, []int{0}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	codec.Close()
	codec.Close()
	for _, codec := range []*Codec{codec, {}} {
		if err := codec.Encode(shards); !errors.Is(err, BadArgument) || err.Error() != "the codec is closed" {
			t.Fatal(err)
		}
	}
	if err := plan.Run(shards); err != nil {
		t.Fatal("a plan stays valid:", err)
	}
	for i := 0; i < 50; i++ { // as do those that nobody closes
		open(t, "rs:4+2")
	}
	runtime.GC()
	runtime.GC()
}

func TestManyGoroutinesUseOneCodec(t *testing.T) {
	codec := open(t, "rs:6+3")
	shards, data := stripe(t, codec, 256)
	var all sync.WaitGroup
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func(g int) {
			defer all.Done()
			for i := 0; i < 200; i++ {
				left := append([][]byte(nil), shards...) // all read the same shards
				left[(g+i)%9], left[(g*i+1)%9] = nil, nil
				if err := codec.Reconstruct(left); err != nil {
					t.Error(err)
				}
				var joined bytes.Buffer
				if err := codec.Join(&joined, left, len(data)); err != nil || !bytes.Equal(joined.Bytes(), data) {
					t.Error("joined:", err)
				}
				if i == 100 && g == 0 {
					runtime.GC()
				}
			}
		}(g)
	}
	all.Wait()
	closing := open(t, "rs:6+3")
	for g := 0; g < 4; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				if _, err := closing.Verify(shards); err != nil {
					if err.Error() != "the codec is closed" {
						t.Error(err)
					}
					return
				}
			}
		}()
	}
	closing.Close()
	all.Wait()
}

func TestCallsAllocateNothing(t *testing.T) {
	codec := open(t, "rs:10+4")
	shards, _ := stripe(t, codec, 64)
	calls := map[string]func() error{
		"Encode":      func() error { return codec.Encode(shards) },
		"EncodeBatch": func() error { return codec.EncodeBatch([][][]byte{shards, shards}) },
		"Update":      func() error { return codec.Update(shards, 3, 5, data[:]) },
		"Verify":      func() error { _, err := codec.Verify(shards); return err },
	}
	for name, call := range calls {
		allocations := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		})
		if allocations > 0 {
			t.Errorf("%s: %v allocations", name, allocations)
		}
	}
}

var data [10]byte

func BenchmarkEncode(b *testing.B) {
	const spec, stripes = "rs:10+4", 64
	for _, element := range []int{512, 4096, 65536, 1 << 20} {
		codec := open(b, spec)
		batch := make([][][]byte, stripes)
		one, _ := stripe(b, codec, element)
		for i := range batch { // the same memory, so that caches are as warm as in a loop of one
			batch[i] = one
		}
		run := func(name string, f func(times int) error) {
			b.Run(fmt.Sprintf("%s/%d", name, element), func(b *testing.B) {
				b.SetBytes(int64(10 * element))
				if err := f(b.N); err != nil {
					b.Fatal(err)
				}
			})
		}
		run("C", func(times int) error {
			if status := inc.Encode(spec, one, times); status != 0 {
				return Status(status)
			}
			return nil
		})
		run("single", func(times int) (err error) {
			for ; times > 0 && err == nil; times-- {
				err = codec.Encode(one)
			}
			return err
		})
		run("batch", func(times int) (err error) {
			for ; times > 0 && err == nil; times -= stripes {
				count := stripes
				if times < count {
					count = times
				}
				err = codec.EncodeBatch(batch[:count])
			}
			return err
		})
	}
}
