package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs is the directory of the documentation.
var docs = filepath.Join("..", "website", "content", "docs")

// page reads a page of the documentation.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNotYet compares not-yet.md with the commands and flags that are refused.
func TestNotYet(t *testing.T) {
	want, text := map[string]string{}, page(t, "not-yet.md")
	for _, c := range commands() {
		if c.Refused != "" {
			want[c.Name] = c.Refused
		}
	}
	for _, m := range regexp.MustCompile("(?m)^- (.*?): (`.*`)$").FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(m[2], ", ") {
			name = strings.Trim(name, "`")
			if flags, isFlag := strings.CutPrefix(name, "-"); isFlag {
				flagsRefused(t, m[1], flags)
				continue
			}
			if want[name] != m[1] {
				t.Errorf("not-yet.md: %q is of %q, in the table of %q", name, m[1], want[name])
			}
			delete(want, name)
		}
	}
	for name, feature := range want {
		t.Errorf("not-yet.md does not list %q of %q", name, feature)
	}
}

// flagsRefused checks that a flag of not-yet.md is refused somewhere.
func flagsRefused(t *testing.T, feature, name string) {
	t.Helper()
	for _, c := range commands() {
		if f := c.FlagSet().Lookup(name); f != nil && f.Usage == "Not part of this version: "+feature+"." {
			return
		}
	}
	t.Errorf("not-yet.md: no command refuses -%s of %q", name, feature)
}
