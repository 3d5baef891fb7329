package rules

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 128)
	for _, test := range []struct {
		name         string
		object, pool bool
	}{
		{"Web-1", true, true},
		{long, true, true},
		{"web_1", false, true},
		{"", false, false},
		{long + "a", false, false},
		{"web.1", false, false},
		{"web\n", false, false},
	} {
		if got := objectName().MatchString(test.name); got != test.object {
			t.Errorf("objectName matches %q: %t, want %t", test.name, got, test.object)
		}
		if got := NodePoolName().MatchString(test.name); got != test.pool {
			t.Errorf("NodePoolName matches %q: %t, want %t", test.name, got, test.pool)
		}
	}
}
