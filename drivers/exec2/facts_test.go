package exec2_test

import "testing"

// TestLevel checks the level of a root agent that lacks nothing.
func TestLevel(t *testing.T) {
	f := newFixture(t, nil)
	got := fingerprint(t, f.Driver).Attributes
	if got["driver.exec2.level"] != "strict" || got["driver.exec2.lacks"] != "" {
		t.Errorf("attributes = %v, want level strict", got)
	}
	sandboxMatches(t, f.Driver, f)
}
