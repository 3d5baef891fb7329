// Package monitor follows an evaluation and its deployment in a terminal. It prints each
// change, which it gets by blocking queries, and the result. It changes nothing.
package monitor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Monitor prints the changes of one evaluation and its deployment.
type Monitor struct {
	env    *term.Env
	client *api.Client
	ns     string
	detail term.Detail
	seen   map[string]string // allocation ID to client status

	mu sync.Mutex // held while a line is printed
}

// New returns a monitor for the namespace ns that prints to e.
func New(e *term.Env, c *api.Client, ns string, detail term.Detail) *Monitor {
	return &Monitor{env: e, client: c, ns: ns, detail: detail, seen: map[string]string{}}
}

// query waits up to a minute for a change after index. With index 0 it returns at once.
func (m *Monitor) query(ctx context.Context, index uint64) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: m.ns, WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx)
}

func (m *Monitor) id(id string) string { return m.detail.ID(id) }

func (m *Monitor) header(format string, a ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.env.Println(m.env.Bold(fmt.Sprintf("==> %s: %s", time.Now().Format(time.RFC3339), fmt.Sprintf(format, a...))))
}

func (m *Monitor) line(format string, a ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.env.Printf("    %s: %s\n", time.Now().Format(time.RFC3339), fmt.Sprintf(format, a...))
}

// Eval follows an evaluation until it ends, then its deployment. If some allocations were
// not placed, it returns at once with exit code 2: the deployment may wait for capacity
// forever.
func (m *Monitor) Eval(ctx context.Context, evalID string) error {
	eval, err := m.untilOver(ctx, evalID)
	if err != nil {
		return err
	}
	if err := placed(eval); err != nil || eval.DeploymentID == "" {
		return err
	}
	return m.Deployment(ctx, eval.DeploymentID)
}

// EvalOnly is Eval without the deployment.
func (m *Monitor) EvalOnly(ctx context.Context, evalID string) error {
	eval, err := m.untilOver(ctx, evalID)
	if err != nil {
		return err
	}
	return placed(eval)
}

// placed returns an error with exit code 2 if some allocations were not placed.
func placed(eval *api.Evaluation) error {
	if len(eval.FailedTGAllocs) > 0 {
		return term.Exit(2)
	}
	return nil
}

// untilOver prints the changes of an evaluation until it ends.
func (m *Monitor) untilOver(ctx context.Context, evalID string) (*api.Evaluation, error) {
	m.header("Monitoring evaluation %q", m.id(evalID))
	last := &api.Evaluation{Status: api.EvalStatusPending}
	var index uint64
	for {
		eval, meta, err := m.client.Evaluations().Info(evalID, m.query(ctx, index))
		if err != nil {
			return nil, fmt.Errorf("Error reading evaluation: %w", err)
		}
		if err := m.changes(ctx, last, eval); err != nil {
			return nil, err
		}
		if last, index = eval, meta.LastIndex; over(eval.Status) {
			return eval, m.ended(eval)
		}
	}
}

func over(status string) bool {
	return status == api.EvalStatusComplete || status == api.EvalStatusFailed || status == api.EvalStatusCancelled
}

// changes prints the differences between two states of the evaluation.
func (m *Monitor) changes(ctx context.Context, last, eval *api.Evaluation) error {
	if last.ID == "" {
		switch {
		case eval.NodeID != "":
			m.line("Evaluation triggered by node %q", m.id(eval.NodeID))
		case eval.JobID != "":
			m.line("Evaluation triggered by job %q", eval.JobID)
		}
	}
	if eval.DeploymentID != "" && last.DeploymentID == "" {
		m.line("Evaluation within deployment: %q", m.id(eval.DeploymentID))
	}
	allocs, _, err := m.client.Evaluations().Allocations(eval.ID, m.query(ctx, 0))
	if err != nil {
		return fmt.Errorf("Error reading allocations of evaluation: %w", err)
	}
	slices.SortFunc(allocs, func(a, b *api.AllocationListStub) int { return strings.Compare(a.Name, b.Name) })
	for _, a := range allocs {
		m.alloc(a, eval)
	}
	if last.ID != "" && last.Status != eval.Status || over(eval.Status) {
		m.line("Evaluation status changed: %q -> %q", last.Status, eval.Status)
	}
	return nil
}

func (m *Monitor) alloc(a *api.AllocationListStub, eval *api.Evaluation) {
	status, known := m.seen[a.ID]
	m.seen[a.ID] = a.ClientStatus
	switch {
	case !known && a.CreateIndex < eval.CreateIndex:
		m.line("Allocation %q modified: node %q, group %q", m.id(a.ID), m.id(a.NodeID), a.TaskGroup)
	case !known:
		m.line("Allocation %q created: node %q, group %q", m.id(a.ID), m.id(a.NodeID), a.TaskGroup)
	case status != a.ClientStatus:
		m.line("Allocation %q status changed: %q -> %q (%s)", m.id(a.ID), status, a.ClientStatus, a.ClientDescription)
	}
}

// ended prints the result of the evaluation. A failed evaluation is an error.
func (m *Monitor) ended(eval *api.Evaluation) error {
	if eval.Status == api.EvalStatusFailed {
		return fmt.Errorf("Evaluation %q failed: %s", m.id(eval.ID), eval.StatusDescription)
	}
	if len(eval.FailedTGAllocs) == 0 {
		m.header("Evaluation %q finished with status %q", m.id(eval.ID), eval.Status)
		return nil
	}
	m.header("Evaluation %q finished with status %q but failed to place all allocations:", m.id(eval.ID), eval.Status)
	for _, group := range slices.Sorted(maps.Keys(eval.FailedTGAllocs)) {
		metric := eval.FailedTGAllocs[group]
		m.line("Task Group %q (failed to place %s):", group, allocations(metric.CoalescedFailures+1))
		for _, l := range Metric(metric, "      ") {
			m.env.Println(l)
		}
	}
	if eval.BlockedEval != "" {
		m.line("Evaluation %q waiting for %s to place remainder", m.id(eval.BlockedEval), Waits(eval))
	}
	return nil
}

func allocations(n int) string {
	if n == 1 {
		return "1 allocation"
	}
	return fmt.Sprintf("%d allocations", n)
}

// Metric returns a line for each reason why nodes were rejected.
func Metric(m *api.AllocationMetric, prefix string) []string {
	var out []string
	add := func(format string, a ...any) { out = append(out, prefix+"* "+fmt.Sprintf(format, a...)) }
	if m.NodesEvaluated == 0 {
		add("No nodes were eligible for evaluation")
	}
	for _, dc := range slices.Sorted(maps.Keys(m.NodesAvailable)) {
		if m.NodesAvailable[dc] == 0 {
			add("No nodes are available in datacenter %q", dc)
		}
	}
	counts := func(format string, of map[string]int) {
		for _, k := range slices.Sorted(maps.Keys(of)) {
			add(format, k, of[k])
		}
	}
	counts("Class %q: %d nodes excluded by filter", m.ClassFiltered)
	counts("Constraint %q: %d nodes excluded by filter", m.ConstraintFiltered)
	if m.NodesExhausted > 0 {
		add("Resources exhausted on %d nodes", m.NodesExhausted)
	}
	counts("Class %q exhausted on %d nodes", m.ClassExhausted)
	counts("Dimension %q exhausted on %d nodes", m.DimensionExhausted)
	sort.Strings(m.QuotaExhausted)
	for _, q := range m.QuotaExhausted {
		add("Quota limit hit %q", q)
	}
	return out
}
