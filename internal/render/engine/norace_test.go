//go:build !race

package engine_test

// raced reports whether the race detector, which multiplies memory, is on.
const raced = false
