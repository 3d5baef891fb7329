//go:build race

package supervise_test

// raced reports whether the race detector, which multiplies memory, is on.
const raced = true
