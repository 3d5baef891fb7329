package testconsul

import (
	"fmt"
	"strings"
	"sync"
)

// faults are the calls that a correct client does not make.
type faults struct {
	mu       sync.Mutex
	found    []string
	expected []string
}

// add records a fault.
func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = append(f.found, fmt.Sprintf(format, args...))
}

// unexpected returns the faults that were not expected, and the expected ones that did not occur.
func (f *faults) unexpected() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	occurred := map[string]bool{}
	for _, text := range f.found {
		known := false
		for _, e := range f.expected {
			if strings.Contains(text, e) {
				known, occurred[e] = true, true
			}
		}
		if !known {
			out = append(out, text)
		}
	}
	for _, e := range f.expected {
		if !occurred[e] {
			out = append(out, fmt.Sprintf("expected fault %q did not occur", e))
		}
	}
	return out
}

// Expect accepts faults that contain a text. The test fails if none occurs.
func (a *Agent) Expect(text string) {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	a.faults.expected = append(a.faults.expected, text)
}

// Faults returns all faults so far.
func (a *Agent) Faults() []string {
	a.faults.mu.Lock()
	defer a.faults.mu.Unlock()
	return append([]string(nil), a.faults.found...)
}
