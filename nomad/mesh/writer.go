package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-metrics"
	"golang.org/x/time/rate"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/nomad"
)

// Limits of the writes to Consul: those of all jobs in a second, and the time for one job.
const (
	writesPerSecond = 10
	writeWithin     = 30 * time.Second
)

// Writer writes the configuration of gateways to Consul.
type Writer struct {
	agent *consul.Agent
	limit *rate.Limiter
}

// NewWriter returns a Writer. Without an agent, Write fails.
func NewWriter(agent *consul.Agent) *Writer {
	return &Writer{agent: agent, limit: rate.NewLimiter(writesPerSecond, writesPerSecond)}
}

// Write writes the configuration of the job's gateways, with the token of the server. It makes no request for other jobs. The
// first failure is returned. Nothing deletes the configuration: it can be that of several jobs.
func (w *Writer) Write(ctx context.Context, job *nomad.Job) error {
	entries := Entries(job)
	if len(entries) == 0 {
		return nil
	}
	if w.agent == nil {
		return fmt.Errorf("the gateway %q needs a configuration in Consul, and this server has no consul block", entries[0].GetName())
	}
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	for _, e := range entries {
		if err := w.write(ctx, e); err != nil {
			return fmt.Errorf("write the configuration of the %s %q to Consul: %w", e.GetKind(), e.GetName(), consul.Redact(err))
		}
	}
	return nil
}

func (w *Writer) write(ctx context.Context, e api.ConfigEntry) error {
	if err := w.limit.Wait(ctx); err != nil {
		return err
	}
	defer metrics.MeasureSince([]string{"nomad", "consul", "create_config_entry"}, time.Now())
	ctx, cancel := w.agent.Within(ctx)
	defer cancel()
	written, _, err := w.agent.Client().ConfigEntries().Set(e, (&api.WriteOptions{}).WithContext(ctx))
	if err == nil && !written {
		return errors.New("not accepted by Consul")
	}
	return err
}
