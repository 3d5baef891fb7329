package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/browse"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxPayload is the maximum size of a payload that the command reads. Servers accept less.
const maxPayload = 1 << 20

type dispatchOptions struct {
	meta                *[]string
	detach, wait, ui    bool
	prefix, idempotency string
	priority            int
	detail              term.Detail
}

func dispatchCommand() term.Command {
	return term.Command{
		Name: "job dispatch", Args: "<job> [input]", MinArgs: 1, MaxArgs: 2,
		Short: "Run a parameterized job",
		Long: `Creates a job from a parameterized job. The payload is the content of the file [input], or of standard
input for "-". It may have at most 16 KiB. Then monitors the evaluation of the new job.

Exit codes: 0 when all allocations were placed, 2 when one could not be placed, 1 for any other error.
With -wait, 2 also means that one failed.`,
		Setup: func(f *term.Flags) term.Run {
			o := &dispatchOptions{}
			o.meta = f.Strings("meta", "A `key=value` pair of the job's meta; may be repeated.")
			f.BoolVar(&o.detach, "detach", false, "Print the IDs of the job and its evaluation and return immediately.")
			f.BoolVar(&o.wait, "wait", false, "Wait until the job is dead.")
			f.StringVar(&o.prefix, "id-prefix-template", "", "A `text` in the ID of the new job, after the ID of the parameterized job.")
			f.StringVar(&o.idempotency, "idempotency-token", "", "A `token`. If a job with the token exists, no other is created.")
			f.IntVar(&o.priority, "priority", 0, "The `priority` of the new job. Default: that of the parameterized job.")
			f.BoolVar(&o.ui, "ui", false, "Open the page of the new job in the web UI.")
			f.DetailVar(&o.detail, "Print full IDs.")
			return o.run
		},
	}
}

func (o *dispatchOptions) run(ctx context.Context, e *term.Env) error {
	if o.detach && o.wait {
		return errors.New("-detach and -wait are mutually exclusive")
	}
	opts := &api.DispatchOptions{IdPrefixTemplate: o.prefix, Priority: o.priority}
	for _, pair := range *o.meta {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("Error parsing meta value %q: want key=value", pair)
		}
		if opts.Meta == nil {
			opts.Meta = map[string]string{}
		}
		opts.Meta[key] = value
	}
	if input := e.Arg(1); input != "" {
		payload, err := e.Input(input, maxPayload)
		if err != nil {
			return fmt.Errorf("Error reading input data: %w", err)
		}
		opts.Payload = payload
	}
	c, stub, err := findKind(ctx, e, e.Arg(0), parameterizedKind)
	if err != nil {
		return err
	}
	opts.JobID = stub.ID
	q := writeIn(ctx, stub.Namespace)
	q.IdempotencyToken = o.idempotency
	resp, _, err := c.Jobs().DispatchOpts(opts, q)
	if err != nil {
		return fmt.Errorf("Failed to dispatch job: %w", err)
	}
	return o.follow(ctx, e, c, dispatched{stub.Namespace, resp.DispatchedJobID, resp.EvalID})
}

// dispatched is a dispatched job. A periodic job and a job of an earlier dispatch with the same token
// have no evaluation.
type dispatched struct{ namespace, id, eval string }

// follow prints a dispatched job and monitors its evaluation.
func (o *dispatchOptions) follow(ctx context.Context, e *term.Env, c *api.Client, d dispatched) error {
	rows := []string{term.Row("Dispatched Job ID", d.id)}
	if d.eval != "" {
		rows = append(rows, term.Row("Evaluation ID", o.detail.ID(d.eval)))
	}
	e.Println(term.Pairs(rows))
	if o.ui {
		if err := browse.Show(ctx, e, c, browse.Job(d.id, d.namespace, "")); err != nil {
			return err
		}
	}
	if o.detach {
		return nil
	}
	if d.eval != "" {
		e.Println()
		if err := monitor.New(e, c, d.namespace, o.detail).Eval(ctx, d.eval); err != nil {
			return err
		}
	}
	if !o.wait {
		return nil
	}
	return untilDead(ctx, c, d.namespace, d.id)
}

// untilDead waits until a job is dead. A failed allocation is an ExitError with code 2.
func untilDead(ctx context.Context, c *api.Client, ns, id string) error {
	q := inNamespace(ctx, ns)
	q.WaitTime = time.Minute
	for {
		job, meta, err := c.Jobs().Info(id, q)
		if err != nil {
			return fmt.Errorf("Error querying job %q: %w", id, err)
		}
		if job.Status != nil && *job.Status == "dead" {
			break
		}
		q.WaitIndex = meta.LastIndex
	}
	allocs, _, err := c.Jobs().Allocations(id, false, inNamespace(ctx, ns))
	if err != nil {
		return fmt.Errorf("Error querying allocations of job %q: %w", id, err)
	}
	for _, a := range allocs {
		if a.NextAllocation == "" && (a.ClientStatus == "failed" || a.ClientStatus == "lost") {
			return &term.ExitError{Code: 2, Err: fmt.Errorf("Job %q failed: allocation %s is %s", id, a.ID, a.ClientStatus)}
		}
	}
	return nil
}
