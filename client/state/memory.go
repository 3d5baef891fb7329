//go:build !race

package state

// maxMemory bounds the data of the process that checks a file. The file is mapped, and
// does not count.
const maxMemory = 256 << 20

// environment is the environment of that process.
var environment = []string{"GOMAXPROCS=1"}
