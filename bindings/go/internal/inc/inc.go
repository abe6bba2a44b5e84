// Package inc encodes in a loop of C, for the benchmark: the cost of a call without Go.
package inc

/*
#cgo pkg-config: pantile
#include <pantile.h>
#include <stdlib.h>

typedef struct stripe {
    uint8_t *shards[32];
} stripe;

// Encodes a stripe `times` times; returns a status.
static int encode(const char *spec, stripe stripe, size_t count, size_t element, size_t times)
{
    pantile_code *code = NULL;
    pantile_codec *codec = NULL;
    int status = pantile_code_parse(spec, &code, NULL);

    if (status == PANTILE_OK)
        status = pantile_codec_new(code, NULL, &codec, NULL);
    for (; status == PANTILE_OK && times > 0; times--)
        status = pantile_encode(codec, (void *const *)stripe.shards, count, element, NULL);
    pantile_codec_free(codec);
    pantile_code_free(code);
    return status;
}
*/
import "C"

import "unsafe"

// Encode encodes a stripe of up to 32 shards, of a code of one row, so many times. It returns the
// status of C.
func Encode(spec string, shards [][]byte, times int) int {
	text := C.CString(spec)
	defer C.free(unsafe.Pointer(text))
	var stripe C.stripe
	for i, shard := range shards {
		stripe.shards[i] = (*C.uint8_t)(unsafe.Pointer(&shard[0]))
	}
	return int(C.encode(text, stripe, C.size_t(len(shards)), C.size_t(len(shards[0])), C.size_t(times)))
}
