package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"github.com/open-nomad/open-nomad/internal/testcsi"
)

// The suite can run only once in a process, so each case has a process of its own, which gets its case by these variables.
const (
	caseEnv   = "EXAMPLECSI_SANITY"
	socketEnv = "EXAMPLECSI_SOCKET"
	dirEnv    = "EXAMPLECSI_DIR"
)

// leastSpecs is the number of tests of the suite that must run. It skips those of capabilities that the plugin does not claim.
const leastSpecs = 70

// sanityCases are the configurations of the plugin, and of the suite.
var sanityCases = map[string]struct {
	flags []string
	set   func(c *sanity.TestConfig)
}{
	"directories": {nil, func(*sanity.TestConfig) {}},
	"devices":     {nil, func(c *sanity.TestConfig) { c.TestVolumeAccessType = "block" }},
	"zones":       {[]string{"-zone", "a"}, func(*sanity.TestConfig) {}},
	"limit":       {[]string{"-max-volumes", "3"}, func(c *sanity.TestConfig) { c.TestNodeVolumeAttachLimit = true }},
}

// TestSanity runs the suite of the CSI project against the plugin.
func TestSanity(t *testing.T) {
	if name := os.Getenv(caseEnv); name != "" {
		runSanity(t, name)
		return
	}
	program := testcsi.Build(t)
	for name, c := range sanityCases {
		t.Run(name, func(t *testing.T) {
			p := testcsi.Start(t, testcsi.Config{Program: program, Flags: append([]string{"-node", "node-1"}, c.flags...)})
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSanity$", "-ginkgo.no-color")
			cmd.Env = append(os.Environ(), caseEnv+"="+name, socketEnv+"="+filepath.Join(p.Dir, testcsi.Socket), dirEnv+"="+t.TempDir())
			out, err := cmd.CombinedOutput()
			specs := 0
			if _, after, found := strings.Cut(string(out), "\nRan "); found {
				fmt.Sscanf(after, "%d of", &specs) // 0 is an error below
			}
			if err != nil || specs < leastSpecs {
				t.Errorf("%v: %d tests ran, want %d\n%s", err, specs, leastSpecs, out)
			}
			if left := p.Mounts(t); len(left) > 0 || p.Devices(t) > 0 {
				t.Errorf("the plugin left the mounts %q and %d devices", left, p.Devices(t))
			}
		})
	}
}

// runSanity runs the suite in this process.
func runSanity(t *testing.T, name string) {
	if err := flag.Set("ginkgo.v", "false"); err != nil {
		t.Fatal(err)
	}
	c := sanity.NewTestConfig()
	c.Address = "unix:" + os.Getenv(socketEnv)
	c.TestVolumeSize, c.TestVolumeExpandSize = 16<<20, 32<<20
	c.TargetPath, c.StagingPath = filepath.Join(os.Getenv(dirEnv), "target"), filepath.Join(os.Getenv(dirEnv), "staging")
	sanityCases[name].set(&c)
	sanity.Test(t, c)
}
