//go:build race

package state

// maxMemory is larger under the race detector: its shadow memory counts as data.
const maxMemory = 1 << 30

// environment has the race detector's own variable too: without it each process sleeps
// for a second before it exits.
var environment = []string{"GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0"}
