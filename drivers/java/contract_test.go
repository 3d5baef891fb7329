package java_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/contract"
	"github.com/open-nomad/open-nomad/drivers/java"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestContract runs the programs of the table as children of a virtual machine. Signals go to the virtual machine.
func TestContract(t *testing.T) {
	needsJava(t)
	shell := func(t testing.TB, cfg *drivers.TaskConfig, script string) {
		t.Helper()
		prepare(t, cfg)
		cfg.Env["NOMAD_ALLOC_DIR"] = "/alloc"
		cfg.Config = decoded(t, block{"class": testtask.JavaClass, "class_path": "/local", "args": []string{"/bin/sh", "-c", script},
			"jvm_options": []string{"-Xmx32m"}})
	}
	contract.Run(t, contract.Subject{
		Driver: func(t testing.TB, super *supervise.Client) drivers.Driver {
			return java.New(chroot.Config{Name: java.Name, Supervisor: super})
		},
		Hold: func(t testing.TB, cfg *drivers.TaskConfig) {
			t.Helper()
			shell(t, cfg, contract.ShellHold)
		},
		Shell: shell, Ready: contract.ShellReady, Stops: map[string]contract.Exit{"": {Code: 130}, "SIGTERM": {Code: 143}},
		Signal: "SIGQUIT", Answer: "Full thread dump", MemoryLimit: true,
	})
}
