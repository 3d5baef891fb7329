package companion

import (
	"fmt"
	"hash/fnv"
	"sync"
)

// Sum returns a checksum of the embedded program, or "" without one.
func Sum() string { return sum() }

// sum avoids a CRC, whose package builds a table at the start of every program that imports it.
var sum = sync.OnceValue(func() string {
	if !Embedded() {
		return ""
	}
	h := fnv.New64a()
	h.Write(binary) //nolint:errcheck // hash.Hash never returns an error
	return fmt.Sprintf("%016x-%d", h.Sum64(), len(binary))
})
