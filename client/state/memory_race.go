//go:build race

package state

// maxMemory is larger under the race detector: its shadow memory counts as data.
const maxMemory = 1 << 30
