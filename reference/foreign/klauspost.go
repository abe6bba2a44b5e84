// Chunks by klauspost/reedsolomon: `encode K M MATRIX FILE` writes FILE.0, FILE.1, .. of FILE;
// `decode K M MATRIX FILE LENGTH` writes FILE of those that are there.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/klauspost/reedsolomon"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func main() {
	k, m, file := number(os.Args[2]), number(os.Args[3]), os.Args[5]
	var options []reedsolomon.Option
	if os.Args[4] == "cauchy" {
		options = append(options, reedsolomon.WithCauchyMatrix())
	}
	if os.Args[4] == "par1" {
		options = append(options, reedsolomon.WithPAR1Matrix())
	}
	codec, err := reedsolomon.New(k, m, options...)
	check(err)
	name := func(i int) string { return fmt.Sprintf("%s.%d", file, i) }
	if os.Args[1] == "encode" {
		data, err := os.ReadFile(file)
		check(err)
		shards, err := codec.Split(data)
		check(err)
		check(codec.Encode(shards))
		for i, shard := range shards {
			check(os.WriteFile(name(i), shard, 0o644))
		}
		return
	}
	shards := make([][]byte, k+m)
	for i := range shards {
		shards[i], err = os.ReadFile(name(i))
		if os.IsNotExist(err) {
			shards[i] = nil
		} else {
			check(err)
		}
	}
	check(codec.Reconstruct(shards))
	var data bytes.Buffer
	check(codec.Join(&data, shards, number(os.Args[6])))
	check(os.WriteFile(file, data.Bytes(), 0o644))
}
