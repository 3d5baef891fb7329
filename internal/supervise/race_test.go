//go:build race

package supervise_test

// raced says that the race detector multiplies memory.
const raced = true
