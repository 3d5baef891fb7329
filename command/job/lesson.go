package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/httpclient"
	"github.com/open-nomad/open-nomad/api/workload"
	"github.com/open-nomad/open-nomad/command/grants"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/denials"
)

// taskName identifies a task of a job.
type taskName struct{ group, task string }

// lesson holds the results of the runs so far.
type lesson struct {
	env     *term.Env
	client  *httpclient.Client
	job     *workload.Job
	ns      string
	patient time.Duration

	names    []taskName // the sandboxed tasks, in the order of the job
	first    map[taskName]grants.Grants
	granted  map[taskName]grants.Grants
	ended    map[taskName]string // how the last run ended
	byNode   bool                // unveil_by_task is off: only the node's plugin config can grant paths
	Runs     int
	Complete bool
}

func newLesson(e *term.Env, c *httpclient.Client, job *workload.Job, patient time.Duration) *lesson {
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

func (l *lesson) query(ctx context.Context) *httpclient.QueryOptions {
	return (&httpclient.QueryOptions{Namespace: l.ns}).WithContext(ctx)
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
		l.env.Warnf("The job cannot run again with the new grants: unveil_by_task is off in the node's plugin %q.", sandboxed)
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
		return a.ClientStatus != api.AllocClientStatusComplete && a.ClientStatus != api.AllocClientStatusFailed && a.ClientStatus != api.AllocClientStatusLost
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
	node, _, err := l.client.Nodes().Info(a.NodeID, (&httpclient.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying node %s: %w", a.NodeName, err)
	}
	l.byNode = l.byNode || node.Attributes["driver.exec2.unveil.tasks"] == "false"
	switch mode := node.Attributes["driver.exec2.explain_denials"]; denials.Mode(mode) {
	case denials.Audit:
		return nil
	case denials.Calls:
		l.env.Warnf("Node %s reports only denied system calls, not denied files and ports.\n%s", a.NodeName, howTo)
		return nil
	}
	return fmt.Errorf("Node %s does not report the denials of its sandbox.\n%s", a.NodeName, howTo)
}

// howTo explains how to make a node report denials.
const howTo = `Set this in the agent's configuration. It turns on the kernel's audit log (Linux 6.15):

  plugin "exec2" {
    config {
      explain_denials = "audit"
    }
  }`

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
		case !g.Equal(l.first[n]) && l.byNode:
			l.env.Println("# unveil_by_task is off on this node, so only its plugin config can grant paths, for all tasks:\n" + g.ForNode())
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
