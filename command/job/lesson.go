package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/grants"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/denials"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
)

// taskName identifies a task of a job.
type taskName struct{ group, task string }

// lesson holds the results of the runs so far.
type lesson struct {
	env     *term.Env
	client  *api.Client
	job     *api.Job
	ns      string
	patient time.Duration

	names    []taskName // the sandboxed tasks, in the order of the job
	drivers  map[taskName]string
	first    map[taskName]grants.Grants
	granted  map[taskName]grants.Grants
	ended    map[taskName]string // how the last run ended
	byNode   map[string]bool     // drivers with unveil_by_task off: only the node's plugin config can grant paths
	Runs     int
	Complete bool
}

func (o *learnOptions) lesson(e *term.Env, c *api.Client, job *api.Job, boxed sandboxed) *lesson {
	l := &lesson{env: e, client: c, job: job, ns: e.Namespace(), patient: o.patient,
		drivers: map[taskName]string{}, byNode: map[string]bool{}, first: map[taskName]grants.Grants{}, granted: map[taskName]grants.Grants{},
		ended: map[taskName]string{}}
	if job.Namespace != nil && *job.Namespace != "" {
		l.ns = *job.Namespace
	}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			if !boxed[t.Driver] {
				continue
			}
			n := taskName{*g.Name, t.Name}
			l.names = append(l.names, n)
			l.drivers[n] = t.Driver
			l.first[n] = grantsOf(t.Config)
			l.granted[n] = l.first[n]
		}
	}
	return l
}

func (l *lesson) query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: l.ns}).WithContext(ctx)
}

// again runs a copy of the job with the grants so far, and adds the grants for new denials.
func (l *lesson) again(ctx context.Context) error {
	copy := copied(l.job, l.granted)
	resp, _, err := l.client.Jobs().Register(copy, writeIn(ctx, l.ns))
	if err != nil {
		return submitError(err)
	}
	defer l.remove(ctx, *copy.ID)
	l.Runs++
	allocs, err := l.follow(ctx, *copy.ID, resp.EvalID)
	if err != nil {
		return err
	}
	updates := false
	for _, stub := range allocs {
		a, _, err := l.client.Allocations().Info(stub.ID, l.query(ctx))
		if err != nil {
			return fmt.Errorf("Error querying allocation: %w", err)
		}
		if err := l.explains(ctx, a); err != nil {
			return err
		}
		for _, n := range l.names {
			if s := a.TaskStates[n.task]; n.group == a.TaskGroup && s != nil {
				l.ended[n] = ending(s)
				next := grants.From(refusals(s), l.granted[n])
				next.Other = merged(l.granted[n].Other, next.Other)
				updates = updates || !next.Equal(l.granted[n])
				l.granted[n] = next
			}
		}
	}
	l.Complete = !updates
	if updates && len(l.byNode) > 0 {
		off := strings.Join(slices.Sorted(maps.Keys(l.byNode)), ", ")
		l.env.Warnf("The job cannot run again with the new grants: unveil_by_task is off in the node's plugin block of %s.", off)
		l.Complete = true
	}
	return nil
}

// remove deregisters and purges a copy of the job, also after Ctrl-C.
func (l *lesson) remove(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if _, _, err := l.client.Jobs().Deregister(id, true, writeIn(ctx, l.ns)); err != nil {
		l.env.Warnf("Failed to remove the copy %q of the job: %v", id, err)
	}
}

// follow waits until one allocation of each group is terminal. It stops the job after
// the timeout.
func (l *lesson) follow(ctx context.Context, id, eval string) ([]*api.AllocationListStub, error) {
	patience := time.After(l.patient)
	stopped := false
	q := l.query(ctx)
	q.WaitTime = time.Second
	for {
		allocs, meta, err := l.client.Jobs().Allocations(id, true, q)
		if err != nil {
			return nil, fmt.Errorf("Error querying allocations of job %q: %w", id, err)
		}
		if over(allocs, len(l.job.TaskGroups)) || stopped && over(allocs, 0) {
			return allocs, nil
		}
		q.WaitIndex = meta.NextIndex()
		if err := l.placed(ctx, eval); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience:
			stopped = true
			if _, _, err := l.client.Jobs().Deregister(id, false, writeIn(ctx, l.ns)); err != nil {
				return nil, fmt.Errorf("Error deregistering job: %w", err)
			}
		default:
		}
	}
}

// over reports whether there are at least n allocations and all are terminal.
func over(allocs []*api.AllocationListStub, n int) bool {
	return len(allocs) >= n && !slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
		return a.ClientStatus != api.AllocClientStatusComplete && a.ClientStatus != api.AllocClientStatusFailed &&
			a.ClientStatus != api.AllocClientStatusLost
	})
}

// placed returns an error if a group was not placed.
func (l *lesson) placed(ctx context.Context, eval string) error {
	e, _, err := l.client.Evaluations().Info(eval, l.query(ctx))
	if err != nil {
		return fmt.Errorf("Error reading evaluation: %w", err)
	}
	for group, m := range e.FailedTGAllocs {
		return fmt.Errorf("Failed to place group %q of the copy:\n%s", group, strings.Join(monitor.Metric(m, "    "), "\n"))
	}
	return nil
}

// explains returns an error if the node of an allocation does not report denials.
func (l *lesson) explains(ctx context.Context, a *api.Allocation) error {
	node, _, err := l.client.Nodes().Info(a.NodeID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying node %s: %w", a.NodeName, err)
	}
	for _, driver := range l.driversOf(a.TaskGroup) {
		if node.Attributes[plugin.Attribute(driver, plugin.UnveilKey)] == "false" {
			l.byNode[driver] = true
		}
		switch mode := node.Attributes[plugin.Attribute(driver, plugin.ExplainKey)]; denials.Mode(mode) {
		case denials.Audit:
		case denials.Calls:
			l.env.Warnf("Node %s reports only denied system calls of tasks of the driver %s, not denied files and ports.\n%s", a.NodeName, driver,
				howTo(driver))
		default:
			return fmt.Errorf("Node %s does not report the denials of tasks of the driver %s.\n%s", a.NodeName, driver, howTo(driver))
		}
	}
	return nil
}

// driversOf returns the drivers of the sandboxed tasks of a group.
func (l *lesson) driversOf(group string) (out []string) {
	for _, n := range l.names {
		if d := l.drivers[n]; n.group == group && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// howTo explains how to make a node report the denials of a driver's tasks.
func howTo(driver string) string {
	return fmt.Sprintf(`Set this in the agent's configuration. It turns on the kernel's audit log (Linux 6.15):

  plugin %q {
    config {
      explain_denials = "audit"
    }
  }`, driver)
}

// refusals returns the denials in a task's events.
func refusals(s *api.TaskState) []denials.Denial {
	var out []denials.Denial
	for _, ev := range s.Events {
		var list []denials.Denial
		if ev.Type != api.TaskSandboxDenial || json.Unmarshal([]byte(ev.Details["denials"]), &list) != nil {
			continue
		}
		out = append(out, list...)
	}
	return out
}

func merged(a, b []denials.Denial) []denials.Denial {
	out := slices.Clone(a)
	for _, d := range b {
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// ending returns the message of the task's last exit or failure.
func ending(s *api.TaskState) string {
	for _, ev := range slices.Backward(s.Events) {
		switch ev.Type {
		case api.TaskTerminated, api.TaskDriverFailure, api.TaskSetupFailure:
			return ev.DisplayMessage
		}
	}
	return "not started"
}

// learnt is the result for a task in the output of -json.
type learnt struct {
	Group, Task string
	Ended       string // how the last run ended
	grants.Grants
}

type result struct {
	JobID    string
	Runs     int
	Complete bool // the last run had no new denials
	Tasks    []learnt
}

func (l *lesson) result() result {
	r := result{JobID: *l.job.ID, Runs: l.Runs, Complete: l.Complete}
	for _, n := range l.names {
		r.Tasks = append(r.Tasks, learnt{n.group, n.task, l.ended[n], l.granted[n]})
	}
	return r
}

// print prints the missing options of each task as HCL with comments.
func (l *lesson) print() {
	for i, n := range l.names {
		if i > 0 {
			l.env.Println("")
		}
		g := l.granted[n]
		l.env.Printf("# group %q, task %q; the last of %d runs: %s\n", n.group, n.task, l.Runs, l.ended[n])
		switch {
		case !g.Equal(l.first[n]) && l.byNode[l.drivers[n]]:
			l.env.Println("# unveil_by_task is off on this node, so only its plugin config can grant paths, for all tasks:\n" +
				g.ForNode(l.drivers[n]))
		case !g.Equal(l.first[n]):
			l.env.Println(g.HCL())
		case len(g.Other) == 0:
			l.env.Println("# No denials.")
		}
		for _, d := range g.Other {
			l.env.Println("# also denied: " + d.String())
		}
	}
}
