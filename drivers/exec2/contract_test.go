package exec2_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/contract"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestContract(t *testing.T) {
	needsSandbox(t)
	users := 88500
	shell := func(t testing.TB, cfg *drivers.TaskConfig, script string) {
		t.Helper()
		users++
		cfg.User = fmt.Sprintf("nomad-%d", users)
		cfg.Env["NOMAD_ALLOC_DIR"] = cfg.SharedDir
		cfg.Config = cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal("/bin/sh"), "args": list([]string{"-c", script})})
	}
	contract.Run(t, contract.Subject{
		Driver: func(t testing.TB, super *supervise.Client) drivers.Driver {
			return exec2.New(exec2.Config{Name: exec2.Name, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Supervisor: super})
		},
		Hold: func(t testing.TB, cfg *drivers.TaskConfig) {
			t.Helper()
			shell(t, cfg, contract.ShellHold)
		},
		Shell: shell, Ready: contract.ShellReady, Stops: contract.ShellStops(), Signal: contract.ShellSignal, Answer: contract.ShellAnswer,
		MemoryLimit:  true,
		GroupSignals: true,
	})
}
