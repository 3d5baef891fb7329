package job

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/browse"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// runOptions are the flags of job run.
type runOptions struct {
	source
	checkIndex                                        string
	evalPriority                                      int
	detach, output, ui                                bool
	detail                                            term.Detail
	preserveCounts, preserveResources, overridePolicy bool
}

func runCommand() term.Command {
	return term.Command{
		Name: "job run", Alias: []string{"run"}, Args: "<path>", MinArgs: 1, MaxArgs: 1,
		Short: "Run a new job or update an existing one",
		Long: `Registers the job at <path>, which is a file, a URL, or "-" for standard input. Then monitors
the evaluation until it is complete, and for a service job also the deployment.

Exit codes: 0 when all allocations were placed and the deployment succeeded, 2 when
an allocation could not be placed, 1 for any other error.`,
		Setup: func(f *term.Flags) term.Run {
			o := &runOptions{}
			o.declare(f)
			o.declareVault(f)
			o.declareConsul(f)
			f.StringVar(&o.checkIndex, "check-index", "", "Register only if this is the job's modify `index`.\n0 means that the job must not exist.")
			f.IntVar(&o.evalPriority, "eval-priority", 0, "The `priority` of the evaluation. Default: the job's priority.")
			f.BoolVar(&o.detach, "detach", false, "Print the evaluation's ID and return immediately.")
			f.BoolVar(&o.output, "output", false, "Print the job as JSON without defaults, and don't register it.")
			f.DetailVar(&o.detail, "Print full IDs.")
			f.BoolVar(&o.preserveCounts, "preserve-counts", false, "Keep the group counts of the running job.")
			f.BoolVar(&o.preserveResources, "preserve-resources", false, "Keep the task resources of the running job.")
			f.BoolVar(&o.ui, "ui", false, "Open the page of the job in the web UI.")
			f.BoolVar(&o.overridePolicy, "policy-override", false, "Override soft-mandatory policies.")
			return o.run
		},
	}
}

func (o *runOptions) run(ctx context.Context, e *term.Env) error {
	job, submission, err := o.read(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	if o.output {
		return o.printJob(e, job)
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	opts, err := o.register(submission)
	if err != nil {
		return err
	}
	resp, _, err := c.Jobs().RegisterOpts(job, opts, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return submitError(err)
	}
	printWarnings(e, resp)
	return o.follow(ctx, e, c, registered{job, resp.EvalID})
}

// printJob prints the job without defaults, in the region and namespace of the flags.
func (o *runOptions) printJob(e *term.Env, job *api.Job) error {
	if ns := e.NamespaceFlag(); ns != "" {
		job.Namespace = &ns
	}
	if region := e.RegionFlag(); region != "" {
		job.Region = &region
	}
	return e.JSON(map[string]*api.Job{"Job": job})
}

func (o *runOptions) register(submission *api.JobSubmission) (*api.RegisterOptions, error) {
	opts := &api.RegisterOptions{Submission: submission, EvalPriority: o.evalPriority,
		PolicyOverride: o.overridePolicy, PreserveCounts: o.preserveCounts, PreserveResources: o.preserveResources}
	if o.checkIndex == "" {
		return opts, nil
	}
	index, err := strconv.ParseUint(o.checkIndex, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("Error parsing check-index value %q: want the job's modify index, a number", o.checkIndex)
	}
	opts.EnforceIndex, opts.ModifyIndex = true, index
	return opts, nil
}

// submitError adds context to the error of a registration.
func submitError(err error) error {
	var refused api.UnexpectedResponseError
	if !errors.As(err, &refused) || !refused.HasBody() {
		return fmt.Errorf("Error submitting job: %w", err)
	}
	if msg := refused.Body(); strings.Contains(msg, "Enforcing job modify index") {
		return errors.New(msg + "\nJob not updated: get its modify index with 'nomad job plan' and try again")
	}
	return fmt.Errorf("Error submitting job: %w", err)
}

// registered is a registered job. Periodic and parameterized jobs have no evaluation.
type registered struct {
	job  *api.Job
	eval string
}

// follow prints a registration and monitors its evaluation.
func (o *runOptions) follow(ctx context.Context, e *term.Env, c *api.Client, r registered) error {
	ns := e.Namespace()
	if n := r.job.Namespace; n != nil && *n != "" {
		ns = *n
	}
	if o.ui {
		if err := browse.Show(ctx, e, c, browse.Job(*r.job.ID, ns, "")); err != nil {
			return err
		}
	}
	if r.eval == "" {
		e.Println("Job registration successful")
		if now := time.Now(); !nextLaunch(r.job, now).IsZero() {
			e.Println("Approximate next launch time: " + inFuture(nextLaunch(r.job, now), now))
		}
		return nil
	}
	if o.detach {
		e.Printf("Job registration successful\nEvaluation ID: %s\n", r.eval)
		return nil
	}
	return monitor.New(e, c, ns, o.detail).Eval(ctx, r.eval)
}
