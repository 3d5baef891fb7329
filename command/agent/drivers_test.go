package agent

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/supervise"
)

func TestDriversAreTheConfigured(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	var names []string
	for _, d := range allDrivers(log, supervise.NewClient(t.TempDir(), log), nil) {
		names = append(names, d.Name())
	}
	if !slices.Equal(names, config.Drivers) {
		t.Errorf("the drivers are %q, config.Drivers is %q", names, config.Drivers)
	}
}
