package safefs_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a/b", "/a", true},
		{"/ab", "/a", false},
		{"/", "/a", false},
		{"/a", "/", true},
		{"/", "/", true},
		{"a/b", "a", true},
		{"/a", "", false},
		{"", "", false},
	} {
		if got := safefs.Within(tt.path, tt.dir); got != tt.want {
			t.Errorf("Within(%q, %q) = %t, want %t", tt.path, tt.dir, got, tt.want)
		}
	}
}
