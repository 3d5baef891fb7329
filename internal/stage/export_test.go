package stage

// InitELF is the program, for its size.
var InitELF = initELF
