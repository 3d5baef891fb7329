package joblogs

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// Print prints what is stored of the logs of the running allocations, one after another. If none
// runs, it prints those of the last ones. A single log has no prefix.
func Print(ctx context.Context, c *api.Client, o Options, out *Output) error {
	q := (&api.QueryOptions{Namespace: o.Namespace}).WithContext(ctx)
	stubs, _, err := c.Jobs().Allocations(o.Job, false, q)
	if err != nil {
		return fmt.Errorf("Error querying allocations of job %q: %w", o.Job, err)
	}
	var ofGroup []*api.AllocationListStub
	for _, a := range stubs {
		if o.Group == "" || a.TaskGroup == o.Group {
			ofGroup = append(ofGroup, a)
		}
	}
	if len(ofGroup) == 0 {
		return fmt.Errorf("No allocations of job %q found", o.Job)
	}
	chosen := current(ofGroup)
	var names int
	for _, a := range chosen {
		names += len(logsOf(a, &o))
	}
	if names == 0 {
		return fmt.Errorf("No selected task of the allocations of job %q has started", o.Job)
	}
	out.Raw = names == 1
	turns := newTurns(1)
	var errs []error
	for _, a := range chosen {
		for _, l := range logsOf(a, &o) {
			r := newReader(c, &o, out, l)
			r.turns = turns
			if err := r.run(ctx); ctx.Err() == nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
