package alloc

import (
	"strings"
	"testing"
)

func TestParseForward(t *testing.T) {
	ports := map[string]int{"http": 24000, "db": 5432}
	for _, c := range []struct {
		in    string
		local uint16
		want  string // the remote port or the error
	}{
		{"http", 24000, "http"},
		{"8080:http", 8080, "http"},
		{"0:db", 0, "db"},
		{"9000", 9000, "9000"},
		{"1:9000", 1, "9000"},
		{"nope", 0, `error: unknown port "nope": use a label (db, http) or a number`},
		{"0", 0, `error: unknown port "0"`},
		{"70000", 0, `error: unknown port "70000"`},
		{"x:http", 0, `error: invalid local port "x" in "x:http"`},
		{"65536:http", 0, "error: invalid local port"},
		{":http", 0, `error: invalid local port ""`},
		{"1:2:3", 0, `error: unknown port "2:3"`},
	} {
		got, err := parseForward(c.in, ports)
		if want, fails := strings.CutPrefix(c.want, "error: "); fails {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("parseForward(%q) = %v, %v, want %q", c.in, got, err, want)
			}
		} else if err != nil || got != (forward{c.local, c.want}) {
			t.Errorf("parseForward(%q) = %v, %v, want %d and %s", c.in, got, err, c.local, c.want)
		}
	}
}
