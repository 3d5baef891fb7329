//go:build race

package server_test

// raced reports whether the race detector, which multiplies memory, is on.
const raced = true
