//go:build !companion

package companion

// binary is empty: this build runs itself again for each entry.
var binary []byte
