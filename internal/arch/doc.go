// Package arch holds the test of the floors. It reads `go list` and floors.txt. It fails on an import
// that does not point to a lower floor, on a package that is missing from the list, on the bans that
// it lists, and on a cycle between top-level folders. It has no other code.
package arch
