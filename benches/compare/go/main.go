// klauspost/reedsolomon behind a C interface, so that it runs in the process and on the thread of its rivals. The loop
// over stripes is on this side: a call from C into Go costs as much as a small stripe.
package main

import "C"

import (
	"unsafe"

	"github.com/klauspost/reedsolomon"
)

type coder struct {
	encoder reedsolomon.Encoder
	k, m    int
}

var coders []coder

//export KsNew
func KsNew(k, m, avx2, leopard C.int) C.int {
	options := []reedsolomon.Option{reedsolomon.WithMaxGoroutines(1), reedsolomon.WithLeopardGF(leopard != 0)}
	if avx2 != 0 {
		options = append(options, reedsolomon.WithAVX512(false), reedsolomon.WithGFNI(false), reedsolomon.WithAVXGFNI(false))
	}
	encoder, err := reedsolomon.New(int(k), int(m), options...)
	if err != nil {
		return -1
	}
	coders = append(coders, coder{encoder, int(k), int(m)})
	return C.int(len(coders) - 1)
}

// views makes slices of the n buffers of each of the sets.
func views(pointers **C.char, n, sets, length int) [][][]byte {
	all := unsafe.Slice((**byte)(unsafe.Pointer(pointers)), n*sets)
	out := make([][][]byte, sets)
	for s := range out {
		for _, p := range all[s*n : (s+1)*n] {
			out[s] = append(out[s], unsafe.Slice(p, length))
		}
	}
	return out
}

//export KsEncode
func KsEncode(handle C.int, pointers **C.char, sets, length, start, calls C.int) C.int {
	c := coders[handle]
	stripes := views(pointers, c.k+c.m, int(sets), int(length))
	set := int(start)
	for i := 0; i < int(calls); i++ {
		if c.encoder.Encode(stripes[set]) != nil {
			return 1
		}
		set = (set + 1) % len(stripes)
	}
	return 0
}

//export KsReconstruct
func KsReconstruct(handle C.int, pointers **C.char, sets, length, start, calls C.int, lost *C.int, losses C.int) C.int {
	c := coders[handle]
	stripes := views(pointers, c.k+c.m, int(sets), int(length))
	indices := unsafe.Slice(lost, int(losses))
	set := int(start)
	for i := 0; i < int(calls); i++ {
		shards := stripes[set]
		// A shard of length 0 is lost; its capacity is where it is written.
		for _, l := range indices {
			shards[l] = shards[l][:0]
		}
		if c.encoder.Reconstruct(shards) != nil {
			return 1
		}
		set = (set + 1) % len(stripes)
	}
	return 0
}

func main() {}
