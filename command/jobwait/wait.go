// Package jobwait implements nomad job wait, which blocks until a job reaches a condition.
//
// A condition (condition.go) decides on what the servers report about the job. The command
// reads that report again each time one of its blocking queries returns: on the job, its
// evaluations, its deployment and its allocations. It changes nothing.
package jobwait

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// The exit codes besides 0 and 1.
const (
	exitImpossible = 2
	exitTimeout    = 124 // as timeout(1)
)

// defaultTimeout is the value of -timeout.
const defaultTimeout = 10 * time.Minute

// Command returns the command job wait.
func Command() term.Command {
	return term.Command{
		Name: "job wait", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Wait until a job is healthy, running, complete or dead",
		Long: `Waits for a condition of the version of the job that is current when the command starts:

healthy: the deployment of the version is successful. A version without a deployment is healthy when it
runs.

running: each group has as many running allocations as its count.

complete: a batch job ended, and each of its last allocations succeeded.

dead: no allocation of the job is pending or running, or the job was purged.

    nomad job run -detach web.nomad.hcl
    nomad job wait -for=healthy -timeout=5m web

Progress is printed to standard error, the result to standard output.

Exit codes: 0 when the condition is reached, 1 for an error, 2 when it cannot be reached any more, 124
after the timeout. Reasons for 2 are a failed deployment, a failed allocation that is not replaced, and a
job that was stopped or changed.`,
		Setup: func(f *term.Flags) term.Run {
			of := f.String("for", "healthy", "The `condition`: "+names()+".")
			timeout := f.Duration("timeout", defaultTimeout, "The maximum `time` to wait, 0 for no limit.")
			return func(ctx context.Context, e *term.Env) error { return run(ctx, e, *of, *timeout) }
		},
	}
}

var errTimeout = errors.New("timeout")

func run(ctx context.Context, e *term.Env, of string, timeout time.Duration) error {
	met, ok := conditions[of]
	switch {
	case !ok:
		return fmt.Errorf("invalid condition %q for -for: use %s", of, names())
	case timeout < 0:
		return fmt.Errorf("invalid time %s for -timeout: use a positive duration, or 0 for no limit", timeout)
	case timeout > 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	w := &watch{env: e, client: c, of: of}
	err = w.until(ctx, e.Arg(0), met)
	if context.Cause(ctx) == errTimeout {
		return &term.ExitError{Code: exitTimeout,
			Err: fmt.Errorf("Timeout after %s: job %q is not %s: %s", timeout, w.name(e.Arg(0)), of, w.shown)}
	}
	return err
}

// watch is one wait.
type watch struct {
	env     *term.Env
	client  *api.Client
	of      string
	id, ns  string
	version uint64
	shown   string // the last progress
}

// name returns the ID of the job, or what the user gave if it is not known yet.
func (w *watch) name(given string) string {
	if w.id == "" {
		return given
	}
	return w.id
}

// until waits for a condition of the job with an ID or a unique prefix of it.
func (w *watch) until(ctx context.Context, prefix string, met condition) error {
	job, err := w.find(ctx, prefix)
	if err != nil {
		return err
	}
	if err := applies(w.of, job); err != nil {
		return err
	}
	w.id, w.ns, w.version = *job.ID, *job.Namespace, *job.Version
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wake, failed := w.changes(ctx)
	for {
		s, err := w.read(ctx)
		if err != nil {
			return err
		}
		v, why := met(s, w.version)
		switch v {
		case reached:
			w.env.Printf("Job %q is %s: %s\n", w.id, w.of, why)
			return nil
		case impossible:
			return &term.ExitError{Code: exitImpossible, Err: fmt.Errorf("Job %q cannot be %s: %s", w.id, w.of, why)}
		}
		if why != w.shown {
			w.env.Warnf("%s: %s: %s", time.Now().Format(time.RFC3339), w.id, why)
			w.shown = why
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-wake:
		}
	}
}

// applies rejects a condition that the kind of the job never reaches.
func applies(of string, job *api.Job) error {
	batch := *job.Type == api.JobTypeBatch || *job.Type == api.JobTypeSysbatch
	switch {
	case of != "dead" && (job.Periodic != nil || job.ParameterizedJob != nil && !job.Dispatched):
		return fmt.Errorf("Job %q is periodic or parameterized and runs nothing itself: give the ID of one of its child jobs", *job.ID)
	case of == "complete" && !batch:
		return fmt.Errorf("Job %q is a %s job, which does not complete: use -for=healthy, running or dead", *job.ID, *job.Type)
	case of == "healthy" && batch:
		return fmt.Errorf("Job %q is a %s job, which has no deployment: use -for=running, complete or dead", *job.ID, *job.Type)
	}
	return nil
}
