package testfault_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testfault"
)

// TestUnexpected checks which faults fail a test.
func TestUnexpected(t *testing.T) {
	var l testfault.List
	l.Expect("denied")
	l.Expect("never")
	l.Allow("late")
	l.Allow("absent")
	l.Add("GET /a: %s", "denied")
	l.Add("GET /b: unknown")
	l.Add("GET /c: late")
	if got, want := l.Unexpected(), []string{"GET /b: unknown", `expected fault "never" did not occur`}; !slices.Equal(got, want) {
		t.Errorf("Unexpected() = %q, want %q", got, want)
	}
	if got, want := l.All(), []string{"GET /a: denied", "GET /b: unknown", "GET /c: late"}; !slices.Equal(got, want) {
		t.Errorf("All() = %q, want %q", got, want)
	}
}
