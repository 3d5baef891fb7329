// Package arch holds the test of the floors. It reads `go list` and floors.txt. It fails if an import
// does not point to a lower floor, or a package is not in floors.txt. It also fails on the banned
// imports that it lists, and on a cycle between top-level folders. It has no other code.
package arch
