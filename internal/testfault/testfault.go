// Package testfault collects the calls that a correct client never makes, for the strict stand-ins of other programs in
// tests. A fault fails the test at its end, unless the test expects it. It starts no goroutine.
package testfault

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// List has the faults of one stand-in. The zero value is empty. Its methods may be called concurrently.
type List struct {
	mu       sync.Mutex
	found    []string
	expected []string
	allowed  []string
}

// Add records a fault.
func (l *List) Add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, fmt.Sprintf(format, args...))
}

// Expect accepts faults that contain a text. The test fails if none occurs.
func (l *List) Expect(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = append(l.expected, text)
}

// Allow accepts faults that contain a text, and that depend on the time: none need occur.
func (l *List) Allow(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed = append(l.allowed, text)
}

// All returns all faults so far.
func (l *List) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.found)
}

// Unexpected returns the faults that were not expected, and the expected ones that did not occur.
func (l *List) Unexpected() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	occurred := map[string]bool{}
	for _, text := range l.found {
		known := slices.ContainsFunc(l.allowed, func(a string) bool { return strings.Contains(text, a) })
		for _, e := range l.expected {
			if strings.Contains(text, e) {
				known, occurred[e] = true, true
			}
		}
		if !known {
			out = append(out, text)
		}
	}
	for _, e := range l.expected {
		if !occurred[e] {
			out = append(out, fmt.Sprintf("expected fault %q did not occur", e))
		}
	}
	return out
}
