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
			if canariesReady(d) {
				m.line("The canaries are healthy: 'nomad deployment promote %s' replaces the other allocations", m.id(id))
			}
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

// canariesReady reports whether the deployment waits for a promotion by hand. The servers check the canaries again.
func canariesReady(d *api.Deployment) bool {
	for _, s := range d.TaskGroups {
		if s.DesiredCanaries > 0 && !s.Promoted && s.HealthyAllocs < s.DesiredCanaries {
			return false
		}
	}
	return d.StatusDescription == needsPromotion
}

// needsPromotion is the description of a deployment that waits for a promotion by hand.
const needsPromotion = "Deployment is running but requires manual promotion"

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
	return head + "\n\nDeployed\n" + term.Table(groupRows(d))
}

// groupRows returns a table of the groups of a deployment. Auto Revert, Promoted and Canaries are columns only if a
// group has them.
func groupRows(d *api.Deployment) []string {
	reverts, canaries := false, false
	for _, s := range d.TaskGroups {
		reverts, canaries = reverts || s.AutoRevert, canaries || s.DesiredCanaries > 0
	}
	cells := []any{"Task Group"}
	if reverts {
		cells = append(cells, "Auto Revert")
	}
	if canaries {
		cells = append(cells, "Promoted", "Desired", "Canaries")
	} else {
		cells = append(cells, "Desired")
	}
	rows := []string{term.Row(append(cells, "Placed", "Healthy", "Unhealthy", "Progress Deadline")...)}
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		s := d.TaskGroups[name]
		cells := []any{name}
		if reverts {
			cells = append(cells, s.AutoRevert)
		}
		switch {
		case canaries && s.DesiredCanaries > 0:
			cells = append(cells, s.Promoted, s.DesiredTotal, s.DesiredCanaries)
		case canaries:
			cells = append(cells, "N/A", s.DesiredTotal, "N/A")
		default:
			cells = append(cells, s.DesiredTotal)
		}
		by := "N/A"
		if !s.RequireProgressBy.IsZero() {
			by = term.Time(s.RequireProgressBy)
		}
		rows = append(rows, term.Row(append(cells, s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs, by)...))
	}
	return rows
}
