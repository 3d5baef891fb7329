package exec2_test

import (
	"os"
	"strings"
	"testing"
)

// TestPage checks that the page for users has every attribute of the driver. Package config checks
// the options.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile("../../website/content/docs/drivers/exec2.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	attributes := fingerprint(t, f.Driver).Attributes
	if len(attributes) < 5 {
		t.Fatalf("attributes = %v, want more", attributes)
	}
	for name := range attributes {
		if !strings.Contains(string(raw), "`"+name+"`") {
			t.Errorf("the page does not name the attribute %s", name)
		}
	}
}
