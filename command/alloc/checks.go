package alloc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

type checksOptions struct {
	detail  term.Detail
	formats term.Formats
}

func checksCommand() term.Command {
	return term.Command{
		Name: "alloc checks", Args: "<allocation>", MinArgs: 1, MaxArgs: 1,
		Short: "Show the latest results of the checks of an allocation",
		Long: "Shows the result of each check of the services of an allocation, from the node that runs it, and the services that " +
			"the node registers in Consul. A check that has not run yet, or that Consul does not have, is pending. The result of a check with on_update = \"ignore\" has the mode readiness: deployments do not wait for it.",
		Setup: func(f *term.Flags) term.Run {
			o := &checksOptions{}
			f.DetailVar(&o.detail, "Print full IDs.")
			o.formats.Declare(f)
			return o.run
		},
	}
}

func (o *checksOptions) run(ctx context.Context, e *term.Env) error {
	at, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	results, err := at.client.Allocations().Checks(at.alloc.ID, query(ctx, at.alloc))
	if err != nil {
		return fmt.Errorf("Error reading the checks: %w", err)
	}
	if o.formats.Wanted() {
		return o.formats.Print(e, results)
	}
	e.Printf("Status of %d Nomad Service Checks\n", len(results))
	for _, c := range sortedChecks(results) {
		e.Println("\n" + o.describe(c))
	}
	printConsul(ctx, e, at.client, at.alloc)
	return nil
}

func (o *checksOptions) describe(c api.AllocCheckStatus) string {
	rows := []string{
		term.Row("ID", o.checkID(c.ID)), term.Row("Name", c.Check), term.Row("Group", c.Group),
		term.Row("Task", taskOfCheck(c)), term.Row("Service", c.Service), term.Row("Status", c.Status),
	}
	if c.StatusCode > 0 {
		rows = append(rows, term.Row("StatusCode", c.StatusCode))
	}
	rows = append(rows, term.Row("Mode", c.Mode), term.Row("Timestamp", term.Time(time.Unix(c.Timestamp, 0))), term.Row("Output", c.Output))
	return term.Pairs(rows)
}

// checkID returns the ID of a check, shortened without -verbose. The IDs in Consul have the same prefix, and those of a
// sidecar differ in the last byte.
func (o *checksOptions) checkID(id string) string {
	if o.detail == term.Full || strings.HasPrefix(id, "service:") {
		return id
	}
	return o.detail.ID(strings.TrimPrefix(id, "_nomad-check-"))
}

// taskOfCheck returns the task of a check, or "(group)".
func taskOfCheck(c api.AllocCheckStatus) string { return cmp.Or(c.Task, "(group)") }

// sortedChecks returns the results by service, task and name.
func sortedChecks(results api.AllocCheckStatuses) []api.AllocCheckStatus {
	var out []api.AllocCheckStatus
	for _, c := range results {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b api.AllocCheckStatus) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Check, b.Check), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// checks prints the results of an allocation that has checks, and its services in Consul. It prints nothing if its node does
// not answer.
func (o *statusOptions) checks(ctx context.Context, e *term.Env, c *api.Client, a *api.Allocation) {
	if !active(a) {
		return
	}
	defer printConsul(ctx, e, c, a)
	if !hasChecks(a) {
		return
	}
	results, err := c.Allocations().Checks(a.ID, query(ctx, a))
	if err != nil || len(results) == 0 {
		return
	}
	rows := []string{"Service|Task|Name|Mode|Status"}
	for _, c := range sortedChecks(results) {
		rows = append(rows, term.Row(c.Service, taskOfCheck(c), c.Check, c.Mode, c.Status))
	}
	e.Printf("\nNomad Service Checks:\n%s\n", term.Table(rows))
}

// active reports whether the node of an allocation may run its tasks.
func active(a *api.Allocation) bool {
	return a.ClientStatus == api.AllocClientStatusRunning || a.ClientStatus == api.AllocClientStatusPending
}

// hasChecks reports whether a service of the allocation's group or tasks has a check.
func hasChecks(a *api.Allocation) bool {
	return hasService(a, func(s *api.Service) bool { return len(s.Checks) > 0 })
}

// hasService reports whether a service of the allocation's group or tasks matches.
func hasService(a *api.Allocation, matches func(*api.Service) bool) bool {
	group := groupOf(a)
	if group == nil {
		return false
	}
	return slices.ContainsFunc(group.Services, matches) ||
		slices.ContainsFunc(group.Tasks, func(t *api.Task) bool { return slices.ContainsFunc(t.Services, matches) })
}
