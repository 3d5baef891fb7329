//go:build linux

package faults

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// picture describes the nodes, the live allocations and the evaluations that have not ended, one per line, for the
// error of a step that did not happen.
func (s *Schedules) picture(ctx context.Context) string {
	var out strings.Builder
	err := s.ask(ctx, "the state is read", func(c *api.Client, ctx context.Context) error {
		out.Reset()
		nodes, _, err := c.Nodes().List(query(ctx))
		if err != nil {
			return err
		}
		for _, n := range nodes {
			fmt.Fprintf(&out, "\nnode %s %s: %s %s, drains: %t", n.Name, n.ID, n.Status, n.SchedulingEligibility, n.Drain)
		}
		allocs, _, err := c.Allocations().List(query(ctx))
		if err != nil {
			return err
		}
		for _, stub := range allocs {
			a, _, err := c.Allocations().Info(stub.ID, query(ctx))
			if err != nil {
				return err
			}
			if !ended(a) {
				fmt.Fprintf(&out, "\nalloc %s v%d of %s deployment %q on %s: %s %s, modified at %d, %s", a.Name,
					*a.Job.Version, a.EvalID, a.DeploymentID, a.NodeName, a.DesiredStatus, a.ClientStatus, a.ModifyIndex, verdictOf(a))
			}
		}
		evals, _, err := c.Evaluations().List(query(ctx))
		if err != nil {
			return err
		}
		for _, e := range evals {
			if e.Status != api.EvalStatusComplete && e.Status != api.EvalStatusCancelled {
				fmt.Fprintf(&out, "\nevaluation %s of %s (%s): %s %s, modified at %d", e.ID, e.JobID, e.TriggeredBy, e.Status,
					e.StatusDescription, e.ModifyIndex)
			}
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return out.String()
}

// verdictOf describes the health of an allocation and whether it must migrate.
func verdictOf(a *api.Allocation) string {
	verdict := "health not decided"
	if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
		verdict = fmt.Sprintf("healthy: %t", *d.Healthy)
	}
	if a.DesiredTransition.Migrate != nil && *a.DesiredTransition.Migrate {
		verdict += ", to migrate"
	}
	return verdict
}
