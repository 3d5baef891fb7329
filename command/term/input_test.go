package term

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name        string
		limit       int
		want, fault string
	}{
		{file, 9, "of a file", ""},
		{file, 8, "", "is larger than 8 B"},
		{"-", 20, "of standard input", ""},
		{"-", 3, "", "- is larger than"},
		{file + "x", 9, "", "no such file"},
		{filepath.Dir(file), 9, "", "is a directory"},
	} {
		e := &Env{In: strings.NewReader("of standard input")}
		got, err := e.Input(tt.name, tt.limit)
		if string(got) != tt.want || (err != nil) != (tt.fault != "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("Input(%q, %d) = %q, %v, want %q and %q", tt.name, tt.limit, got, err, tt.want, tt.fault)
		}
	}
}
