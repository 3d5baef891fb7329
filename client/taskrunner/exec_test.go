package taskrunner

import (
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/mock"
)

// A driver without exec support gives hooks no Exec function.
func TestNoExecForHooks(t *testing.T) {
	r := &Runner{cfg: Config{Driver: mock.New(mock.Name, slog.New(slog.DiscardHandler))}}
	if r.execer() != nil {
		t.Error("hooks may run commands with a driver that cannot")
	}
}
