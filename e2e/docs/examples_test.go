package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// serverBlock matches the server block of a complete configuration.
var serverBlock = regexp.MustCompile(`(?m)^ *server \{\n`)

// Every example of a server configuration enforces node introductions: a copied example must be
// safe.
func TestExamplesAreStrict(t *testing.T) {
	files := []string{"../../README.md", "../../scripts/demo"}
	for _, pattern := range []string{"../../website/content/docs/*.md", "../../website/content/docs/*/*.md", "../../demo/*.hcl",
		"../../demo/*/*.hcl"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	examples := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, at := range serverBlock.FindAllStringIndex(text, -1) {
			indent := strings.Repeat(" ", strings.Count(text[at[0]:at[1]], " ")-1)
			body, _, _ := strings.Cut(text[at[1]:], "\n"+indent+"}\n")
			examples++
			if !regexp.MustCompile(`client_introduction \{\s+enforcement += "strict"`).MatchString(body) {
				t.Errorf("%s has an example of a server without strict introduction:\n%s", name, body)
			}
		}
		if strings.Contains(text, "agent -server -bootstrap-expect") {
			t.Errorf("%s starts a server by flags alone: nodes join it without an introduction", name)
		}
	}
	if examples < 6 {
		t.Errorf("%d examples were found", examples)
	}
}
