// Package arch holds the tests of the structure. They read `go list` and layers.txt. They fail if a package imports one of
// a higher layer, or belongs to none; on the banned imports and calls that they list; and on a cycle between top-level
// folders. It has no other code.
package arch
