//go:build !companion

package companion

// binary is empty: this build re-executes itself for each entry.
var binary []byte
