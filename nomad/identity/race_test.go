//go:build race

package identity_test

// slowness is how much longer everything takes under the race detector.
const slowness = 20
