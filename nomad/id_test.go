package nomad_test

import (
	"regexp"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestNewID checks that IDs are distinct random UUIDs.
func TestNewID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 100 {
		id := nomad.NewID()
		if !form.MatchString(id) || !nomad.IsUUID(id) || seen[id] {
			t.Fatalf("NewID() = %s, want a new random UUID", id)
		}
		seen[id] = true
	}
}
