package exec_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/contract"
	"github.com/open-nomad/open-nomad/drivers/exec"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestContract(t *testing.T) {
	needsRoot(t)
	shell := func(t testing.TB, cfg *drivers.TaskConfig, script string) {
		t.Helper()
		prepare(t, cfg)
		cfg.Env["NOMAD_ALLOC_DIR"] = "/alloc"
		cfg.Config = decoded(t, block{"command": "/bin/sh", "args": []string{"-c", script}})
	}
	contract.Run(t, contract.Subject{
		Driver: func(t testing.TB, super *supervise.Client) drivers.Driver {
			return configured(t, chroot.Config{Name: exec.Name, Supervisor: super}, nil)
		},
		Hold: func(t testing.TB, cfg *drivers.TaskConfig) {
			t.Helper()
			shell(t, cfg, contract.ShellHold)
		},
		Shell: shell, Ready: contract.ShellReady, Stops: contract.ShellStops(), Signal: contract.ShellSignal, Answer: contract.ShellAnswer,
		MemoryLimit: true,
	})
}
