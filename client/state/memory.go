//go:build !race

package state

// maxMemory limits the data segment of the process that checks a file. The mapped file does not
// count.
const maxMemory = 256 << 20

// environment is the environment of the process.
var environment = []string{"GOMAXPROCS=1"}
