package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// script is a file of a library of the web UI that is in the program.
type script struct {
	path string // in the tree
	sum  string // SHA-256
}

// webLibraries returns the libraries of ui/vendor.lock that are in the program: those below ui/app.
func webLibraries(root string) ([]component, error) {
	lock, err := os.ReadFile(filepath.Join(root, "ui/vendor.lock"))
	if err != nil {
		return nil, fmt.Errorf("read the libraries of the web UI: %w", err)
	}
	var all []component
	for line := range strings.Lines(string(lock)) {
		f := strings.Fields(line)
		if len(f) != 6 || strings.HasPrefix(line, "#") || !strings.HasPrefix(f[3], "ui/app/") {
			continue
		}
		if len(all) == 0 || all[len(all)-1].name != f[0] {
			all = append(all, component{name: f[0], version: f[1], npm: true})
		}
		c := &all[len(all)-1]
		c.files = strings.TrimSpace(c.files + " " + f[3])
		if kindOf(path.Base(f[2])) != licence {
			c.scripts = append(c.scripts, script{f[3], f[5]})
			continue
		}
		body, err := os.ReadFile(filepath.Join(root, f[3]))
		if err != nil {
			return nil, fmt.Errorf("read the licence of %s: %w", f[0], err)
		}
		ids, err := recognise(string(body))
		if err != nil {
			return nil, fmt.Errorf("library %s of the web UI: file %s: %w", f[0], f[3], err)
		}
		c.texts = append(c.texts, text{path: f[2], body: string(body), licences: ids})
	}
	for _, c := range all {
		if len(c.texts) == 0 {
			return nil, fmt.Errorf("library %s of the web UI has no licence in ui/vendor.lock: add it, and run make ui-vendor", c.name)
		}
	}
	return all, nil
}
