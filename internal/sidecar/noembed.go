//go:build !companion

package sidecar

// The programs are entries of this executable.
var fetchBinary, renderBinary []byte
