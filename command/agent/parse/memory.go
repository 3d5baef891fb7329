//go:build !race

package parse

// maxMemory bounds the data of a process: heap, stacks and global variables (RLIMIT_DATA).
const maxMemory = 384 << 20
