package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/grants"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/denials"
)

// taskName is a task of a job.
type taskName struct{ group, task string }

// lesson is what runs of a job have shown.
type lesson struct {
	env     *term.Env
	client  *api.Client
	job     *api.Job
	ns      string
	patient time.Duration

	names    []taskName // of the sandboxed tasks, as the job has them
	first    map[taskName]grants.Grants
	granted  map[taskName]grants.Grants
	ended    map[taskName]string // how the last run ended
	byNode   bool                // tasks may not grant themselves paths: the operator must
	Runs     int
	Complete bool
}

func newLesson(e *term.Env, c *api.Client, job *api.Job, patient time.Duration) *lesson {
	l := &lesson{env: e, client: c, job: job, ns: e.Namespace(), patient: patient,
		first: map[taskName]grants.Grants{}, granted: map[taskName]grants.Grants{}, ended: map[taskName]string{}}
	if job.Namespace != nil && *job.Namespace != "" {
		l.ns = *job.Namespace
	}
	for _, g := range job.TaskGroups {
		for _, t := range g.Tasks {
			if t.Driver != sandboxed {
				continue
			}
			n := taskName{*g.Name, t.Name}
			l.names = append(l.names, n)
			l.first[n] = grantsOf(t.Config)
			l.granted[n] = l.first[n]
		}
	}
	return l
}

func (l *lesson) query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: l.ns}).WithContext(ctx)
}

// again runs the job once more, with what was learnt, and learns from it.
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
	news := false
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
				news = news || !next.Equal(l.granted[n])
				l.granted[n] = next
			}
		}
	}
	l.Complete = !news
	if news && l.byNode {
		l.env.Warnf("The node's plugin %q has unveil_by_task off: the job cannot be run again with what was learnt.", sandboxed)
		l.Complete = true
	}
	return nil
}

// remove takes a copy of the job away, also after Ctrl-C.
func (l *lesson) remove(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if _, _, err := l.client.Jobs().Deregister(id, true, writeIn(ctx, l.ns)); err != nil {
		l.env.Warnf("Job %q was left behind: %v", id, err)
	}
}

// follow waits until an allocation of each group is over; those that take too long are
// stopped.
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

// over says whether there are n allocations at least, and all have ended.
func over(allocs []*api.AllocationListStub, n int) bool {
	return len(allocs) >= n && !slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
		return a.ClientStatus != api.AllocClientStatusComplete && a.ClientStatus != api.AllocClientStatusFailed && a.ClientStatus != api.AllocClientStatusLost
	})
}

// placed is an error when a group found no node.
func (l *lesson) placed(ctx context.Context, eval string) error {
	e, _, err := l.client.Evaluations().Info(eval, l.query(ctx))
	if err != nil {
		return fmt.Errorf("Error reading evaluation: %w", err)
	}
	for group, m := range e.FailedTGAllocs {
		return fmt.Errorf("No node could run group %q of the copy:\n%s", group, strings.Join(monitor.Metric(m, "    "), "\n"))
	}
	return nil
}

// explains is an error when the node that ran an allocation does not tell what it
// refuses.
func (l *lesson) explains(ctx context.Context, a *api.Allocation) error {
	node, _, err := l.client.Nodes().Info(a.NodeID, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error reading node %s, to see whether it tells what it refuses: %w", a.NodeName, err)
	}
	l.byNode = l.byNode || node.Attributes["driver.exec2.unveil.tasks"] == "false"
	switch mode := node.Attributes["driver.exec2.explain_denials"]; denials.Mode(mode) {
	case denials.Audit:
		return nil
	case denials.Calls:
		l.env.Warnf("Node %s tells system calls only: files and ports that were refused are not seen.\n%s", a.NodeName, howTo)
		return nil
	}
	return fmt.Errorf("Node %s does not tell what its sandbox refuses.\n%s", a.NodeName, howTo)
}

// howTo has refusals told.
const howTo = `Its operator can have the agent tell, which turns the kernel's auditing on (Linux 6.15):

  plugin "exec2" {
    config {
      explain_denials = "audit"
    }
  }`

// refusals reads what a task's events have of them.
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

// ending says how a task's run ended, for who wonders why it did so little.
func ending(s *api.TaskState) string {
	for _, ev := range slices.Backward(s.Events) {
		switch ev.Type {
		case api.TaskTerminated, api.TaskDriverFailure, api.TaskSetupFailure:
			return ev.DisplayMessage
		}
	}
	return "not started"
}

// learnt is what -json prints of a task.
type learnt struct {
	Group, Task string
	Ended       string // how the last run ended
	grants.Grants
}

type result struct {
	JobID    string
	Runs     int
	Complete bool // the last run was refused nothing new
	Tasks    []learnt
}

func (l *lesson) result() result {
	r := result{JobID: *l.job.ID, Runs: l.Runs, Complete: l.Complete}
	for _, n := range l.names {
		r.Tasks = append(r.Tasks, learnt{n.group, n.task, l.ended[n], l.granted[n]})
	}
	return r
}

// print shows the options of each task that lacks any, as HCL with comments.
func (l *lesson) print() {
	for i, n := range l.names {
		if i > 0 {
			l.env.Println("")
		}
		g := l.granted[n]
		l.env.Printf("# group %q, task %q; the last of %d runs: %s\n", n.group, n.task, l.Runs, l.ended[n])
		switch {
		case !g.Equal(l.first[n]) && l.byNode:
			l.env.Println("# Tasks may not name paths on this node (unveil_by_task). Its operator can, for all of them:\n" + g.ForNode())
		case !g.Equal(l.first[n]):
			l.env.Println(g.HCL())
		case len(g.Other) == 0:
			l.env.Println("# Nothing was refused to it.")
		}
		for _, d := range g.Other {
			l.env.Println("# also refused: " + d.String())
		}
	}
}
