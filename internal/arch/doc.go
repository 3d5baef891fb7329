// Package arch holds the floors test: it reads `go list` and floors.txt, and fails
// on any import that does not point to a lower floor, on a package that is missing
// from the list, and on the bans that it lists. It has no other code.
package arch
