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

// sandboxed is the driver whose tasks can be learnt of.
const sandboxed = "exec2"

// cleanup bounds how long the copies of a job may take to be removed after Ctrl-C.
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
		Short: "Run a job once and print the grants that it lacked",
		Long: `Runs a copy of the job, of type batch, with a name of its own and one allocation per group, and collects
what the sandbox refused to its tasks of driver exec2. Then prints the smallest unveil and network
options that would have allowed it, to be pasted into each task's config block.

A refusal hides what the program would have done next, so the copy is run again with what was learnt
until nothing new is refused, -runs times at most. A task that does not end by itself is stopped after
-for. The copies are removed. The job really runs, on any node that suits it: it writes where it may.

The nodes must tell what they refuse: explain_denials = "audit" in plugin "exec2".

Exits with 0 when the last run was refused nothing new, 2 when there may be more, and 1 for any error.`,
		Setup: func(f *term.Flags) term.Run {
			o := &learnOptions{}
			f.BoolVar(&o.strict, "hcl2-strict", true, "Refuse variables that the jobspec does not declare.")
			o.vars = f.Strings("var", "A `name=value` pair for an input variable; may be repeated.")
			o.varFiles = f.Strings("var-file", "A `file` with values for input variables; may be repeated.")
			f.BoolVar(&o.asJSON, "json", false, "Print what was learnt as JSON. (A jobspec in JSON is known by its name, *.json.)")
			f.IntVar(&o.runs, "runs", 5, "How `often` the job is run at most.")
			f.DurationVar(&o.patient, "for", 30*time.Second, "How `long` a run may take before its tasks are stopped.")
			return o.run
		},
	}
}

func (o *learnOptions) run(ctx context.Context, e *term.Env) error {
	if o.runs < 1 || o.patient <= 0 {
		return errors.New("-runs and -for must be above 0")
	}
	o.json = strings.HasSuffix(e.Arg(0), ".json")
	job, _, err := o.read(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	if err := learnable(job); err != nil {
		return fmt.Errorf("Cannot learn from this job: %w", err)
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	l := newLesson(e, c, job, o.patient)
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
		err = &term.ExitError{Code: 2, Err: fmt.Errorf("There may be more: the last of %d runs was refused something new. Raise -runs, or run it again with what is printed", l.Runs)}
	}
	return err
}

// learnable says why a job cannot be run once for this.
func learnable(j *api.Job) error {
	kind := "service"
	if j.Type != nil {
		kind = *j.Type
	}
	switch {
	case kind != api.JobTypeService && kind != api.JobTypeBatch:
		return fmt.Errorf("its type is %s; service and batch can be run once", kind)
	case j.Periodic != nil:
		return errors.New("it is periodic: learn from it without the periodic block")
	case j.ParameterizedJob != nil:
		return errors.New("it is parameterized: learn from a job with the payload and meta in place")
	case j.Multiregion != nil:
		return errors.New("it is of several regions")
	}
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			if t.Driver == sandboxed {
				return nil
			}
		}
	}
	return fmt.Errorf("none of its tasks has the driver %s, the one with a sandbox that can tell", sandboxed)
}

// copied makes what is run of a job: a batch job of its own name that is run once, with
// what each task was granted so far.
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
			if task.Driver == sandboxed {
				task.Config = granting(t.Config, granted[taskName{*g.Name, t.Name}])
			}
			group.Tasks = append(group.Tasks, &task)
		}
		out.TaskGroups = append(out.TaskGroups, &group)
	}
	return &out
}

func suffix() string {
	var b [4]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// granting returns a config with other grants.
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

// grantsOf reads what a job's config grants already.
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
