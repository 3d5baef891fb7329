//go:build amd64 || arm64

package stage

// InitELF is the program, for its size.
var InitELF = initELF
