package ticket

import "strconv"

// Fill has a verifier remember as many used tickets as it can, until a Unix time.
func Fill(v *Verifier, until int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := range maxUsed {
		v.used[strconv.Itoa(n)] = until
	}
}
