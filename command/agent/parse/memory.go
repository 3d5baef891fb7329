//go:build !race

package parse

// maxMemory bounds the data of a process: heap, stacks and global variables.
const maxMemory = 384 << 20
