package csi_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// inParallel is the number of tests that run at once. They wait for most of their time.
const inParallel = "4"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", inParallel); err != nil {
		panic(err) // a flag of package testing
	}
	harness.Main(m, nil)
}

// built is the program of the plugin, which is built once for all tests.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "examplecsi")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	program := filepath.Join(dir, "examplecsi")
	cmd := exec.Command("go", "build", "-trimpath", "-tags=companion", "-o", program, "github.com/open-nomad/open-nomad/e2e/examplecsi")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build examplecsi: %w\n%s", err, out)
	}
	return os.ReadFile(program)
})
