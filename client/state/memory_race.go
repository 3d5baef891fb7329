//go:build race

package state

// maxMemory is larger under the race detector, because its shadow memory counts.
const maxMemory = 1 << 30

// environment also sets the race detector's variable. Otherwise each process sleeps for a
// second before it exits.
var environment = []string{"GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0"}
