package catalog_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// The letters are those of ASCII: U+017F and U+212A are the same as s and K without regard to case.
func TestServiceName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, want := range map[string]bool{"a": true, "A-1": true, long: true, long + "a": false, "": false, "-a": false, "a-": false,
		"a.b": false, "a b": false, "\u017f": false, "\u212a": false} {
		if catalog.ServiceName(name) != want {
			t.Errorf("ServiceName(%q) = %v", name, !want)
		}
	}
}
