//go:build !race

package identity_test

// slowness is one but under the race detector.
const slowness = 1
