package client

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// A server of Nomad, which does not take schemas, is reported once. Other failures are reported each time.
func TestSchemaFailed(t *testing.T) {
	var log strings.Builder
	c := &Client{log: slog.New(slog.NewTextHandler(&log, nil))}
	lines := func() int { return strings.Count(log.String(), "\n") }
	absent := fmt.Errorf("call: %w", apierror.ErrNoMethod)
	for i, step := range []struct {
		err  error
		want int
	}{{absent, 1}, {absent, 1}, {errors.New("no leader"), 2}, {errors.New("no leader"), 3}, {absent, 3}, {nil, 3}, {absent, 4}} {
		if step.err == nil {
			c.schemasAbsent.Store(false) // a schema was sent
		} else {
			c.schemaFailed("digest", step.err)
		}
		if got := lines(); got != step.want {
			t.Errorf("step %d: %d lines, want %d:\n%s", i, got, step.want, log.String())
		}
	}
}
