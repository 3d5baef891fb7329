package job

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/grants"
	"github.com/open-nomad/open-nomad/command/term"
)

// cleanup is the timeout for removing a copy of the job, also after Ctrl-C.
const cleanup = 30 * time.Second

type learnOptions struct {
	source
	asJSON  bool
	runs    int
	patient time.Duration
}

func learnCommand() term.Command {
	return term.Command{
		Name: "job learn", Args: "<path>", MinArgs: 1, MaxArgs: 1,
		Short: "Run a copy of a job and print the grants that it lacks",
		Long: `Runs a copy of the job and collects the denials of the sandboxes of its tasks. The copy is a batch job
with its own name and one allocation per group. Then prints the smallest unveil and network options
that allow the denied operations. Paste them into the config block of each task.

A denial can hide later denials, so the copy runs again with the grants found so far. This ends when a
run has no new denials, or after -runs runs. A task that does not exit is stopped after -for. The copies
are removed. The tasks really run, on any feasible node, and can write to all paths granted to them.

The nodes must report denials: set explain_denials = "audit" in the plugin block of the tasks' driver.

Exit codes: 0 when the last run had no new denials, 2 when it had new denials, 1 for any error.`,
		Setup: func(f *term.Flags) term.Run {
			o := &learnOptions{}
			f.BoolVar(&o.strict, "hcl2-strict", true, "Reject variables that the jobspec does not declare.")
			o.vars = f.Strings("var", "A `name=value` pair for an input variable; may be repeated.")
			o.varFiles = f.Strings("var-file", "A `file` with values for input variables; may be repeated.")
			f.BoolVar(&o.asJSON, "json", false, "Print the result as JSON. (A file named *.json is parsed as a JSON jobspec.)")
			f.IntVar(&o.runs, "runs", 5, "The maximum `number` of runs.")
			f.DurationVar(&o.patient, "for", 30*time.Second, "The `time` after which the tasks of a run are stopped.")
			return o.run
		},
	}
}

func (o *learnOptions) run(ctx context.Context, e *term.Env) error {
	if o.runs < 1 || o.patient <= 0 {
		return errors.New("-runs and -for must be greater than 0")
	}
	o.json = strings.HasSuffix(e.Arg(0), ".json")
	job, _, err := o.read(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	boxed, err := sandboxedDrivers(ctx, c, job)
	if err != nil {
		return err
	}
	if err := learnable(job, boxed); err != nil {
		return fmt.Errorf("Cannot learn from this job: %w", err)
	}
	l := o.lesson(e, c, job, boxed)
	for l.Runs < o.runs && !l.Complete {
		if err := l.again(ctx); err != nil {
			return err
		}
	}
	if o.asJSON {
		err = e.JSON(l.result())
	} else {
		l.print()
	}
	if err == nil && !l.Complete {
		err = &term.ExitError{Code: 2,
			Err: fmt.Errorf("The last of %d runs had new denials, so there may be more. Raise -runs, or add the "+
				"printed options to the job and run this command again", l.Runs)}
	}
	return err
}

// learnable returns an error for a job that cannot run once.
func learnable(j *api.Job, boxed sandboxed) error {
	kind := "service"
	if j.Type != nil {
		kind = *j.Type
	}
	switch {
	case kind != api.JobTypeService && kind != api.JobTypeBatch:
		return fmt.Errorf("its type is %s: only service and batch jobs can run once", kind)
	case j.Periodic != nil:
		return errors.New("it is periodic: remove the periodic block")
	case j.ParameterizedJob != nil:
		return errors.New("it is parameterized: remove the parameterized block, and set the payload and the meta in the job")
	case j.Multiregion != nil:
		return errors.New("it is a multiregion job: remove the multiregion block")
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if boxed[t.Driver] {
				return nil
			}
		}
	}
	return errors.New("none of its tasks has a driver that reports denials")
}

// copied returns the copy of a job to run: a batch job with its own name that runs
// once, with the given grants for the sandboxed tasks.
func copied(j *api.Job, granted map[taskName]grants.Grants) *api.Job {
	out := *j
	id := *j.ID + "-learn-" + suffix()
	batch, none, fail := api.JobTypeBatch, 0, "fail"
	out.ID, out.Name, out.Type = &id, &id, &batch
	out.Update, out.Migrate, out.Reschedule, out.TaskGroups = nil, nil, nil, nil
	for _, g := range j.TaskGroups {
		group, one, no := *g, 1, false
		group.Count, group.Update, group.Migrate, group.Tasks = &one, nil, nil, nil
		group.RestartPolicy = &api.RestartPolicy{Attempts: &none, Mode: &fail}
		group.ReschedulePolicy = &api.ReschedulePolicy{Attempts: &none, Unlimited: &no}
		for _, t := range g.Tasks {
			task := *t
			task.RestartPolicy = nil
			if more, ok := granted[taskName{*g.Name, t.Name}]; ok {
				task.Config = granting(t.Config, more)
			}
			group.Tasks = append(group.Tasks, &task)
		}
		out.TaskGroups = append(out.TaskGroups, &group)
	}
	return &out
}

func suffix() string {
	var b [4]byte
	rand.Read(b[:]) // never returns an error: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}

// granting returns a copy of a task's config with the grants g.
func granting(config map[string]any, g grants.Grants) map[string]any {
	out := map[string]any{}
	for k, v := range config {
		out[k] = v
	}
	if len(g.Unveil) > 0 {
		out["unveil"] = g.Unveil
	}
	if len(g.Bind)+len(g.Connect) > 0 {
		out["network"] = []map[string]any{{"bind": g.Bind, "connect": g.Connect}}
	}
	return out
}

// grantsOf returns the grants in a task's config.
func grantsOf(config map[string]any) grants.Grants {
	var g grants.Grants
	if list, ok := config["unveil"].([]any); ok {
		for _, v := range list {
			if s, ok := v.(string); ok {
				g.Unveil = append(g.Unveil, s)
			}
		}
	}
	block := config["network"]
	switch list := block.(type) {
	case []map[string]any:
		if len(list) == 1 {
			block = list[0]
		}
	case []any:
		if len(list) == 1 {
			block = list[0]
		}
	}
	if m, ok := block.(map[string]any); ok {
		g.Bind, g.Connect = portsOf(m["bind"]), portsOf(m["connect"])
	}
	return g
}

func portsOf(v any) []int {
	list, _ := v.([]any)
	var out []int
	for _, p := range list {
		switch n := p.(type) {
		case int:
			out = append(out, n)
		case int64:
			out = append(out, int(n))
		case float64:
			out = append(out, int(n))
		}
	}
	return out
}
