package companion

import (
	"fmt"
	"hash/fnv"
	"sync"
)

// Sum tells one embedded program from another; empty without one.
func Sum() string { return sum() }

// sum is no CRC: that makes a table at the start of every program that could need it.
var sum = sync.OnceValue(func() string {
	if !Embedded() {
		return ""
	}
	h := fnv.New64a()
	h.Write(binary) //nolint:errcheck // a hash takes everything
	return fmt.Sprintf("%016x-%d", h.Sum64(), len(binary))
})
