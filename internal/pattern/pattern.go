// Package pattern has regular expressions that are compiled at their first use. Each start of the program, also for a
// command of the CLI, would compile those of all packages.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that compiles the expression at its first call. It panics if the expression is not valid.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
