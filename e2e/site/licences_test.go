package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLicences checks that the site contains the licence of each script of others. The project's own scripts
// are those of the generator, and the index of the search.
func TestLicences(t *testing.T) {
	dir := filepath.Join(site(t), newest, "assets")
	scripts, err := filepath.Glob(filepath.Join(dir, "*.js"))
	if err != nil || len(scripts) < 3 {
		t.Fatalf("scripts %q: %v", scripts, err)
	}
	others := 0
	for _, path := range scripts {
		name := filepath.Base(path)
		if _, err := os.Stat(filepath.Join("../../website/generator/assets", name)); err == nil || name == "index.js" {
			continue
		}
		others++
		text, err := os.ReadFile(filepath.Join(dir, "LICENSE."+strings.TrimSuffix(name, ".js")+".txt"))
		if err != nil || !strings.Contains(string(text), "Copyright") {
			t.Errorf("the site has %s without its licence: %v", name, err)
		}
	}
	if others == 0 {
		t.Error("the site has no script of others, and that of the search is one")
	}
}
