package qemu_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/contract"
	"github.com/open-nomad/open-nomad/drivers/qemu"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestContract(t *testing.T) {
	needsEmulator(t)
	needsRoot(t)
	users := 88500
	contract.Run(t, contract.Subject{
		Driver: func(_ testing.TB, super *supervise.Client) drivers.Driver { return qemu.New(qemu.Name, super) },
		Hold: func(t testing.TB, cfg *drivers.TaskConfig) {
			t.Helper()
			users++
			cfg.User = fmt.Sprintf("nomad-%d", users)
			prepare(t, cfg, map[string]any{"graceful_shutdown": true})
		},
		Ready: testtask.GuestGreeting, Stops: map[string]contract.Exit{"": {}},
	})
}
