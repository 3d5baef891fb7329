//go:build race

package identity_test

// slowness is the slowdown factor under the race detector.
const slowness = 20
