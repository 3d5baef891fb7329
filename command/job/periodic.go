package job

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/cron"
)

func periodicForceCommand() term.Command {
	return term.Command{
		Name: "job periodic force", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Launch a periodic job now",
		Long: `Launches the job with the current time, also if prohibit_overlap is set and an earlier launch still runs.
Then monitors the evaluation of the launch. Of several launches in one second, only the first has an effect.`,
		Setup: func(f *term.Flags) term.Run {
			detach := f.Bool("detach", false, "Print the evaluation's ID and return immediately.")
			detail := f.Detail("Print full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := findKind(ctx, e, e.Arg(0), periodicKind)
				if err != nil {
					return err
				}
				id, _, err := c.Jobs().PeriodicForce(stub.ID, writeIn(ctx, stub.Namespace))
				if err != nil {
					return fmt.Errorf("Error forcing periodic job %q: %w", stub.ID, err)
				}
				if *detach {
					e.Printf("Force periodic successful\nEvaluation ID: %s\n", id)
					return nil
				}
				return monitor.New(e, c, stub.Namespace, *detail).Eval(ctx, id)
			}
		},
	}
}

// nextLaunch returns the next launch of a job, or the zero time if it is not launched by itself.
func nextLaunch(j *api.Job, now time.Time) time.Time {
	p := j.Periodic
	if p == nil || isTrue(j.Stop) || p.Enabled != nil && !*p.Enabled || j.ParameterizedJob != nil && !j.Dispatched {
		return time.Time{}
	}
	specs, zone := p.Specs, ""
	if len(specs) == 0 && p.Spec != nil {
		specs = []string{*p.Spec}
	}
	if p.TimeZone != nil {
		zone = *p.TimeZone
	}
	times, err := cron.Parse(zone, specs...)
	if err != nil {
		return time.Time{} // a server of another version accepted it
	}
	return times.Next(now)
}

// inFuture formats a time with the time until then.
func inFuture(t, now time.Time) string {
	return fmt.Sprintf("%s (%s from now)", t.Format(time.RFC3339), term.Duration(t.Sub(now)))
}

// launchText is the text for the next launch of a periodic job.
func launchText(j *api.Job, now time.Time) string {
	next := nextLaunch(j, now)
	switch {
	case isTrue(j.Stop):
		return "none (job stopped)"
	case next.IsZero():
		return "none"
	}
	return inFuture(next, now)
}

func isTrue(b *bool) bool { return b != nil && *b }
