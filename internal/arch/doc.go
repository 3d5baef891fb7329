// Package arch holds the tests of the structure, and of its map. They read `go list`, layers.txt and ARCHITECTURE.md. They
// fail if a package imports one of a higher layer, or belongs to none; on the banned imports and calls that they list; on
// a cycle between top-level folders; and on a package, file or function of the map that does not exist, or that the map
// has in another layer. It has no other code.
package arch
