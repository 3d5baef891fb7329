package rawexec_test

import (
	"os"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/contract"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestContract(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: control groups")
	}
	shell := func(_ testing.TB, cfg *drivers.TaskConfig, script string) {
		cfg.Env["PATH"], cfg.Env["NOMAD_ALLOC_DIR"] = "/usr/bin:/bin", cfg.SharedDir
		cfg.Config = cty.ObjectVal(map[string]cty.Value{"command": cty.StringVal("/bin/sh"),
			"args": cty.ListVal([]cty.Value{cty.StringVal("-c"), cty.StringVal(script)})})
	}
	contract.Run(t, contract.Subject{
		Driver: func(t testing.TB, super *supervise.Client) drivers.Driver {
			t.Helper()
			d := rawexec.New(rawexec.Name, super)
			if err := d.SetConfig(cty.ObjectVal(map[string]cty.Value{"enabled": cty.True})); err != nil {
				t.Fatal(err)
			}
			return d
		},
		Hold:  func(t testing.TB, cfg *drivers.TaskConfig) { shell(t, cfg, contract.ShellHold) },
		Shell: shell, Ready: contract.ShellReady, Stops: contract.ShellStops(), Signal: contract.ShellSignal, Answer: contract.ShellAnswer,
		GroupSignals: true,
	})
}
