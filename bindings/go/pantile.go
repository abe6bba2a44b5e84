// Package pantile is an erasure-coding library: parity for data, lost shards from the others, small
// writes, wrong shards named, cheapest reads.
//
// A code is named by a spec such as "rs:10+4", "raid6:8" or "lrc:12,2,2". A stripe is a list of
// shards, one for each column of the code. A shard is its rows, one element behind the other, and
// all elements of a stripe have the same length; most codes have one row, so that all shards have
// the same length. A shard that is nil or empty is missing.
//
// A call that fails returns an *Error with the library's message, and has changed no byte unless
// that is documented. Codecs and plans can be used by any number of goroutines at the same time. The
// shards are the caller's: no two calls may write the same ones.
//
// The package calls the C library libpantile, which pkg-config finds by the name pantile.
package pantile

/*
#cgo pkg-config: pantile
#cgo CFLAGS: -O2
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Status is the kind of an error: errors.Is(err, pantile.NotRecoverable).
type Status int

// The statuses that a program may want to distinguish; pantile.h has all of them.
const (
	NullPointer    Status = C.PANTILE_NULL_POINTER
	BadArgument    Status = C.PANTILE_BAD_ARGUMENT
	Overlap        Status = C.PANTILE_OVERLAP
	BadCode        Status = C.PANTILE_BAD_CODE
	TooMuchWork    Status = C.PANTILE_TOO_MUCH_WORK
	NotRecoverable Status = C.PANTILE_NOT_RECOVERABLE
	StudyOnly      Status = C.PANTILE_STUDY_ONLY
	NothingToCheck Status = C.PANTILE_NOTHING_TO_CHECK
	Panic          Status = C.PANTILE_PANIC
)

// Error returns the name of the status in pantile.h.
func (s Status) Error() string { return C.GoString(C.pantile_status_name(C.int(s))) }

// Error is the reason why a call failed.
type Error struct {
	Status  Status
	Message string
}

// Error returns the message: one sentence.
func (e *Error) Error() string { return e.Message }

// Is compares the status with a Status.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && status == e.Status
}

func refuse(format string, arguments ...any) error {
	return &Error{BadArgument, fmt.Sprintf(format, arguments...)}
}

// failed returns the error of a call that filled in `why`.
func failed(why *C.pantile_error) error {
	return &Error{Status(why.status), C.GoString(&why.message[0])}
}

// Version returns the version of the C library.
func Version() string { return C.GoString(C.pantile_version()) }

// Codec computes with the stripes of one code.
type Codec struct {
	mutex sync.RWMutex // calls read, Close writes
	code  *C.pantile_code
	codec *C.pantile_codec
	shape Shape
	spec  string
	rows  []int
	holds []bool // data, by column
}

// New returns the codec of a spec, such as "rs:10+4", "raid6:8", "dcode:7", "lrc:12,2,2".
func New(spec string) (*Codec, error) {
	if strings.IndexByte(spec, 0) >= 0 {
		return nil, &Error{BadCode, fmt.Sprintf("%q is no spec: it has a zero byte", spec)}
	}
	text := C.CString(spec)
	defer C.free(unsafe.Pointer(text))
	var code *C.pantile_code
	var why C.pantile_error
	if C.pantile_code_parse(text, &code, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	return newCodec(code)
}

// NewFromText returns the codec of a code file (docs/code-files.md), which need not be trusted.
func NewFromText(file string) (*Codec, error) {
	text := C.CString(file)
	defer C.free(unsafe.Pointer(text))
	var code *C.pantile_code
	var why C.pantile_error
	if C.pantile_code_from_text(text, C.size_t(len(file)), 0, &code, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	return newCodec(code)
}

func newCodec(code *C.pantile_code) (*Codec, error) {
	c := &Codec{code: code}
	runtime.SetFinalizer(c, (*Codec).Close)
	var why C.pantile_error
	if C.pantile_codec_new(code, nil, &c.codec, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	if err := c.describe(); err != nil {
		return nil, err
	}
	return c, nil
}

// Close gives the memory of the codec back. It waits for calls that run; later ones are refused.
// Without it the memory is given back once the garbage collector finds the codec unused. Plans of
// the codec stay valid.
func (c *Codec) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	C.pantile_codec_free(c.codec)
	C.pantile_code_free(c.code)
	c.codec, c.code = nil, nil
	return nil
}

// enter keeps the handles until leave, or refuses.
func (c *Codec) enter() error {
	c.mutex.RLock()
	if c.codec == nil {
		c.mutex.RUnlock()
		return refuse("the codec is closed")
	}
	return nil
}

func (c *Codec) leave() { c.mutex.RUnlock() }

// element returns the length of the elements of a stripe, the same in all shards that are there.
func (c *Codec) element(shards [][]byte, canMiss bool) (int, error) {
	if len(shards) != len(c.rows) {
		return 0, refuse("%d shards; a stripe of %s has %d", len(shards), c.spec, len(c.rows))
	}
	element := 0
	for column, shard := range shards {
		if len(shard) == 0 {
			if !canMiss {
				return 0, refuse("shard %d is missing", column)
			}
			continue
		}
		if element == 0 {
			element = len(shard) / c.rows[column]
		}
		if element == 0 || len(shard) != element*c.rows[column] {
			return 0, refuse("shard %d has %d bytes for %d rows; elements of this stripe have %d",
				column, len(shard), c.rows[column], element)
		}
	}
	if element == 0 {
		return 0, refuse("all shards are missing")
	}
	return element, nil
}

// pointer returns the address of the first byte; nil of a slice that is empty.
func pointer(bytes []byte) *C.uint8_t {
	if len(bytes) == 0 {
		return nil
	}
	return (*C.uint8_t)(unsafe.Pointer(&bytes[0]))
}

// fill writes the addresses of shards to a table.
func fill(table []*C.uint8_t, shards [][]byte) {
	for i, shard := range shards {
		table[i] = pointer(shard)
	}
}

// cross makes one call with a stripe.
func cross(request C.pantile_go_request, shards [][]byte) (int, error) {
	request.columns, request.stripes = C.size_t(len(shards)), 1
	if len(shards) > C.PANTILE_GO_FEW {
		return crossMany(request, shards)
	}
	var table C.pantile_go_few
	fill(table.columns[:], shards)
	return ended(C.pantile_go_with_few(request, table))
}

func crossMany(request C.pantile_go_request, stripes ...[][]byte) (int, error) {
	var table C.pantile_go_many
	for i, shards := range stripes {
		fill(table.columns[i*len(shards):], shards)
	}
	return ended(C.pantile_go_with_many(request, table))
}

func ended(answer C.pantile_go_answer) (int, error) {
	if answer.why == nil {
		return int(answer.number), nil
	}
	defer C.free(unsafe.Pointer(answer.why))
	return int(answer.number), failed(answer.why)
}

// request returns the arguments of a call of the codec with a stripe.
func (c *Codec) request(call C.pantile_go_call, element int) C.pantile_go_request {
	return C.pantile_go_request{
		call:    call,
		handle:  C.uintptr_t(uintptr(unsafe.Pointer(c.codec))),
		element: C.size_t(element),
	}
}

// Encode computes all parity of a stripe from its data. Every shard has its full length before; of
// codes that have data and parity in one column (dcode, xcode) a shard is written in part.
func (c *Codec) Encode(shards [][]byte) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	element, err := c.element(shards, false)
	if err != nil {
		return err
	}
	_, err = cross(c.request(C.PANTILE_GO_ENCODE, element), shards)
	return err
}

// EncodeBatch encodes many stripes. One call of C takes up to 1,024 shards of neighbouring stripes
// that are equally long. If it fails, the stripes before the one in the message are encoded; none
// is if a shard is missing or has another length.
func (c *Codec) EncodeBatch(stripes [][][]byte) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	for i, shards := range stripes {
		if _, err := c.element(shards, false); err != nil {
			return refuse("stripe %d: %v", i, err)
		}
	}
	most := C.PANTILE_GO_MANY / len(c.rows)
	for from := 0; from < len(stripes); {
		to := from + 1
		for to < len(stripes) && to-from < most && len(stripes[to][0]) == len(stripes[from][0]) {
			to++
		}
		request := c.request(C.PANTILE_GO_ENCODE, len(stripes[from][0])/c.rows[0])
		request.columns, request.stripes = C.size_t(len(c.rows)), C.size_t(to-from)
		if done, err := crossMany(request, stripes[from:to]...); err != nil {
			why := err.(*Error)
			why.Message = fmt.Sprintf("stripe %d: %s", from+done, why.Message)
			return why
		}
		from = to
	}
	return nil
}

// Verify returns true if the shards that are there satisfy all equations between them. Too few for
// any equation is the error NothingToCheck.
func (c *Codec) Verify(shards [][]byte) (bool, error) {
	if err := c.enter(); err != nil {
		return false, err
	}
	defer c.leave()
	element, err := c.element(shards, true)
	if err != nil {
		return false, err
	}
	fault, err := cross(c.request(C.PANTILE_GO_VERIFY, element), shards)
	return err == nil && fault == -1, err // PANTILE_NONE is SIZE_MAX
}

// Reconstruct computes all missing shards, in new memory or in that of an empty slice with room for
// it. More losses than the code can recover are the error NotRecoverable.
func (c *Codec) Reconstruct(shards [][]byte) error {
	return c.reconstruct(shards, func(int) bool { return true })
}

// ReconstructData computes the missing shards that hold data, and leaves others missing.
func (c *Codec) ReconstructData(shards [][]byte) error {
	return c.reconstruct(shards, func(column int) bool { return c.holds[column] })
}

// ReconstructSome computes the missing shards of the wanted columns, and leaves others missing.
func (c *Codec) ReconstructSome(shards [][]byte, wanted []bool) error {
	if len(wanted) != len(shards) {
		return refuse("%d shards, and %d entries that say which are wanted", len(shards), len(wanted))
	}
	return c.reconstruct(shards, func(column int) bool { return wanted[column] })
}

func (c *Codec) reconstruct(shards [][]byte, isWanted func(column int) bool) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	element, err := c.element(shards, true)
	if err != nil {
		return err
	}
	given := make([][]byte, len(shards))
	states := make([]byte, len(shards))
	wanted := 0
	for column, shard := range shards {
		given[column] = shard
		switch need := element * c.rows[column]; {
		case len(shard) > 0:
			states[column] = C.PANTILE_COLUMN_PRESENT
		case !isWanted(column):
			states[column] = C.PANTILE_COLUMN_ABSENT
		default:
			states[column] = C.PANTILE_COLUMN_WANTED
			if wanted++; cap(shard) >= need {
				given[column] = shard[:need]
			} else {
				given[column] = make([]byte, need)
			}
		}
	}
	if wanted == 0 {
		return nil
	}
	request := c.request(C.PANTILE_GO_RECONSTRUCT, element)
	request.states = pointer(states)
	if _, err := cross(request, given); err != nil {
		return err
	}
	copy(shards, given)
	return nil
}

// Update replaces bytes of one element, from offset on, and keeps all parity true. Elements of data
// count from 0 in user order: the data shards of codes of one row. Needed are the shard of that
// element and those of its parities; others can be missing.
func (c *Codec) Update(shards [][]byte, position, offset int, content []byte) error {
	return c.update(C.PANTILE_GO_UPDATE, shards, position, offset, content)
}

// UpdateParity adds a change, old content xor new content, to the parities that are there, and
// leaves data alone: for keepers of parity that do not have the data.
func (c *Codec) UpdateParity(shards [][]byte, position, offset int, change []byte) error {
	return c.update(C.PANTILE_GO_UPDATE_PARITY, shards, position, offset, change)
}

func (c *Codec) update(call C.pantile_go_call, shards [][]byte, position, offset int, content []byte) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	element, err := c.element(shards, true)
	if err != nil {
		return err
	}
	if position < 0 || offset < 0 {
		return refuse("element %d, offset %d: neither can be negative", position, offset)
	}
	if len(content) == 0 {
		return refuse("the new content has no bytes")
	}
	request := c.request(call, element)
	request.position, request.offset = C.size_t(position), C.size_t(offset)
	request.content, request.bytes = pointer(content), C.size_t(len(content))
	_, err = cross(request, shards)
	return err
}

// Split returns the shards of a new stripe that holds data in user order, with zeros behind them,
// parity included.
func (c *Codec) Split(data []byte) ([][]byte, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	if len(data) == 0 {
		return nil, refuse("there are no data to split")
	}
	var element C.size_t
	var why C.pantile_error
	if C.pantile_split_bytes(c.codec, C.size_t(len(data)), &element, &why) != C.PANTILE_OK {
		return nil, failed(&why)
	}
	shards := make([][]byte, len(c.rows))
	for column, rows := range c.rows {
		shards[column] = make([]byte, rows*int(element))
	}
	request := c.request(C.PANTILE_GO_SPLIT, int(element))
	request.content, request.bytes = pointer(data), C.size_t(len(data))
	if _, err := cross(request, shards); err != nil {
		return nil, err
	}
	return shards, nil
}

// Join writes the first size bytes of the stripe's data. Parity can be missing and is not looked
// at.
func (c *Codec) Join(to io.Writer, shards [][]byte, size int) error {
	data, err := c.join(shards, size)
	if err == nil {
		_, err = to.Write(data)
	}
	return err
}

func (c *Codec) join(shards [][]byte, size int) ([]byte, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	element, err := c.element(shards, true)
	if err != nil {
		return nil, err
	}
	if room := element * c.shape.DataCells; size < 0 || size > room {
		return nil, refuse("%d bytes of data; these shards have %d", size, room)
	}
	data := make([]byte, size)
	if size == 0 {
		return data, nil
	}
	request := c.request(C.PANTILE_GO_JOIN, element)
	request.content, request.bytes = pointer(data), C.size_t(size)
	_, err = cross(request, shards)
	return data, err
}
