package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Deployment follows a deployment until it ends. A failed deployment is an ExitError with
// code 1. While tasks download artifacts, it prints their progress.
func (m *Monitor) Deployment(ctx context.Context, id string) error {
	m.header("Monitoring deployment %q", m.id(id))
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { m.downloads(ctx, id) })
	defer others.Wait()
	defer cancel()
	var index uint64
	shown := ""
	for {
		d, meta, err := m.client.Deployments().Info(id, m.query(ctx, index))
		if err != nil {
			return fmt.Errorf("Error reading deployment: %w", err)
		}
		index = meta.LastIndex
		if text := DeploymentText(d, m.detail); text != shown {
			m.line("\n\n%s\n", text)
			shown = text
		}
		switch d.Status {
		case "successful":
			m.header("Deployment %q %s", m.id(id), d.Status)
			return nil
		case "failed", "cancelled", "blocked":
			m.header("Deployment %q %s", m.id(id), d.Status)
			return &term.ExitError{Code: 1, Err: fmt.Errorf("Deployment %s: %s", d.Status, d.StatusDescription)}
		}
	}
}

// DeploymentText formats a deployment as in the output of deployment status.
func DeploymentText(d *api.Deployment, detail term.Detail) string {
	head := term.Pairs([]string{
		term.Row("ID", detail.ID(d.ID)),
		term.Row("Job ID", d.JobID),
		term.Row("Job Version", d.JobVersion),
		term.Row("Status", d.Status),
		term.Row("Description", d.StatusDescription),
	})
	if len(d.TaskGroups) == 0 {
		return head
	}
	rows := []string{"Task Group|Desired|Placed|Healthy|Unhealthy|Progress Deadline"}
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		by := "N/A"
		if !s.RequireProgressBy.IsZero() {
			by = term.Time(s.RequireProgressBy)
		}
		rows = append(rows, term.Row(name, s.DesiredTotal, s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs, by))
	}
	return head + "\n\nDeployed\n" + term.Table(rows)
}
