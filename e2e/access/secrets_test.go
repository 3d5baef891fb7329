package access

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// canary is the value of the variable in prod.
const canary = "c4n4ry-of-a-variable"

// variableRows are the rows that return the items of variables.
var variableRows = []string{"GET /v1/var/:path", "GET /v1/vars/tree", "Variables.Read", "Variables.Tree"}

// mayRead reports whether a caller may receive the canary from a row.
func mayRead(row, who string) bool {
	return who == "management" && slices.Contains(variableRows, row)
}

// secrets returns the secrets that only their holders may receive, by kind.
func (h *house) secrets(callers []caller) map[string]string {
	out := map[string]string{
		"the first token":            h.management,
		"the secret of a node":       h.near.secret,
		"the secret of another node": h.far.secret,
	}
	for _, c := range callers {
		if c.token != "" {
			out["the token of: "+c.name] = c.token
		}
	}
	for job, token := range h.workloads {
		out["the token of the job "+job] = token
	}
	return out
}

// leaks checks that an answer contains no secret of another caller.
func (h *house) leaks(t *testing.T, row string, c caller, answer string) {
	t.Helper()
	for what, secret := range h.known {
		if secret != c.token && strings.Contains(answer, secret) {
			t.Errorf("%s as %s: the answer holds %s", row, c.name, what)
		}
	}
	if strings.Contains(answer, canary) && !mayRead(row, c.name) {
		t.Errorf("%s as %s: the answer holds the variable", row, c.name)
	}
}

// noneExposed searches for secrets in the output of the agents and in the arguments of all
// processes, and for files that other users can read.
func (h *house) noneExposed() {
	t := h.t
	t.Helper()
	h.known["the variable"] = canary
	for _, name := range []string{"server", "client"} {
		h.absent(t, filepath.Join(h.dir, name, "agent.log"))
		h.closed(t, filepath.Join(h.dir, name, "data"))
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	h.must(err)
	for _, file := range processes {
		h.absent(t, file)
	}
}

// absent searches a file for secrets; a process may have ended.
func (h *house) absent(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	for what, secret := range h.known {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s holds %s", file, what)
		}
	}
}

// closed checks that other users can read no file below a directory. It skips the directories
// of allocations, which belong to the tasks and have tests of their own.
func (h *house) closed(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // a file of an allocation may have been removed
		}
		info, err := d.Info()
		switch {
		case err != nil:
			return nil
		case d.IsDir() && d.Name() == "alloc":
			return fs.SkipDir
		case info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
			t.Errorf("%s has the mode %v", path, info.Mode())
		case info.Mode().IsRegular() && strings.HasSuffix(path, ".wal"):
			h.noCanary(t, path)
		}
		return nil
	})
	h.must(err)
}

// noCanary searches the servers' log for the variable, which it holds encrypted.
func (h *house) noCanary(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	h.must(err)
	if strings.Contains(string(text), canary) {
		t.Errorf("%s holds the variable", file)
	}
}
