package ticket

import "strconv"

// Fill makes a verifier record the maximum number of used tickets, valid until a Unix time.
func Fill(v *Verifier, until int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for n := range maxUsed {
		v.used[strconv.Itoa(n)] = until
	}
}
