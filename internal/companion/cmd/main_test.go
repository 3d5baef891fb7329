package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSmall checks the size limit of the companion, which runs before the first instruction of
// every task.
func TestSmall(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "companion")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	st, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	const budget = 3<<20 + 256<<10
	if st.Size() > budget {
		t.Errorf("the companion has %d bytes, want at most %d", st.Size(), budget)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, heavy := range []string{"net", "github.com/elastic/go-seccomp-bpf", "net/http", "crypto/tls", "crypto/rand", "crypto/sha256",
		"text/template", "regexp", "encoding/gob", "os/user"} {
		if slices.Contains(deps, heavy) {
			t.Errorf("the companion imports %s", heavy)
		}
	}
}
