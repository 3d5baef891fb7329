//go:build !race

package identity_test

// slowness is 1 without the race detector.
const slowness = 1
