package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

const (
	// maxUnderway is the maximum number of moves at once.
	maxUnderway = 16
	// movePoll is the interval at which moves are checked.
	movePoll = 500 * time.Millisecond
)

// mover makes moves. It starts those that the servers allow, and waits until their replacements are healthy:
//
//	pending ──started──▶ under way ──replacement healthy──▶ made
//	   └────────────────────┴──failure, Ctrl-C──▶ end
//
// A refused move remains pending while others are under way: it may be possible after them.
type mover struct {
	env      *term.Env
	client   *api.Client
	timeout  time.Duration
	detail   term.Detail
	total    int
	made     int
	pending  []*api.AllocMove
	underway []*underway
}

// underway is a move that the servers have accepted.
type underway struct {
	*api.AllocMove
	evalID string
	until  time.Time
}

func (m *mover) run(ctx context.Context) error {
	for changed := true; len(m.pending)+len(m.underway) > 0; {
		if changed {
			if err := m.start(ctx); err != nil {
				return m.end(err)
			}
		}
		select {
		case <-ctx.Done():
			return m.end(ctx.Err())
		case <-time.After(movePoll):
		}
		before := len(m.underway)
		if err := m.check(ctx); err != nil {
			return m.end(err)
		}
		changed = len(m.underway) < before
	}
	m.env.Printf("%s made\n", counted(m.made, "move"))
	return nil
}

// end returns the error with what was done.
func (m *mover) end(err error) error {
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	var ids []string
	for _, u := range m.underway {
		ids = append(ids, m.detail.ID(u.AllocID))
	}
	if len(ids) > 0 {
		err = fmt.Errorf("%w\nThe servers complete the moves that are under way: %s", err, strings.Join(ids, ", "))
	}
	return fmt.Errorf("Rebalancing ended after %d of %s: %w", m.made, counted(m.total, "move"), err)
}

// start starts the pending moves that the servers allow now.
func (m *mover) start(ctx context.Context) error {
	var refused error
	full := map[string]bool{} // groups of which no more allocations may move now
	var rest []*api.AllocMove
	for i, move := range m.pending {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(m.underway) == maxUnderway {
			rest = append(rest, m.pending[i:]...)
			break
		}
		group := move.Namespace + "\x00" + move.JobID + "\x00" + move.TaskGroup
		if full[group] {
			rest = append(rest, move)
			continue
		}
		// Once sent, the request is not cut off by Ctrl-C, so that its outcome is known.
		q := (&api.WriteOptions{Namespace: move.Namespace}).WithContext(context.WithoutCancel(ctx))
		resp, err := m.client.Allocations().Move(move.AllocID, move.ToID, q)
		switch {
		case err == nil:
			m.env.Printf("Moving allocation %s of job %s to node %s\n", m.detail.ID(move.AllocID), term.Cell(move.JobID), m.node(move))
			m.underway = append(m.underway, &underway{move, resp.EvalID, time.Now().Add(m.timeout)})
		case api.StatusCode(err) == http.StatusConflict:
			refused, full[group] = err, true
			rest = append(rest, move)
		default:
			m.pending = append(rest, m.pending[i:]...)
			return fmt.Errorf("move allocation %s: %w", m.detail.ID(move.AllocID), err)
		}
	}
	m.pending = rest
	if len(m.underway) == 0 {
		return refused
	}
	return nil
}

func (m *mover) node(move *api.AllocMove) string {
	return term.Cell(cmp.Or(move.ToName, m.detail.ID(move.ToID)))
}

// check reports the moves that are complete, and returns the first failure.
func (m *mover) check(ctx context.Context) error {
	for _, u := range slices.Clone(m.underway) {
		next, err := m.replacement(ctx, u)
		if err != nil {
			return fmt.Errorf("allocation %s of job %s: %w", m.detail.ID(u.AllocID), u.JobID, err)
		}
		if next == nil {
			continue
		}
		m.made++
		m.underway = slices.DeleteFunc(m.underway, func(o *underway) bool { return o == u })
		m.env.Printf("Replacement %s of job %s is healthy on node %s\n", m.detail.ID(next.ID), term.Cell(u.JobID), m.node(u.AllocMove))
	}
	return nil
}

// replacement returns the replacement of a moved allocation if it is healthy, nil if the move is not complete, or why
// the move failed.
func (m *mover) replacement(ctx context.Context, u *underway) (*api.Allocation, error) {
	q := (&api.QueryOptions{Namespace: u.Namespace}).WithContext(ctx)
	eval, _, err := m.client.Evaluations().Info(u.evalID, q)
	if err != nil {
		return nil, err
	}
	alloc, _, err := m.client.Allocations().Info(u.AllocID, q)
	if err != nil {
		return nil, err
	}
	var next *api.Allocation
	if alloc.NextAllocation != "" {
		if next, _, err = m.client.Allocations().Info(alloc.NextAllocation, q); err != nil {
			return nil, err
		}
	}
	healthy, err := judge(u, eval, next)
	switch {
	case err != nil:
		return nil, err
	case healthy:
		return next, nil
	case time.Now().After(u.until):
		return nil, fmt.Errorf("the move did not complete within %s", m.timeout)
	}
	return nil, nil
}

// judge reports whether a replacement is healthy, or why its move failed. next is nil if there is none yet.
func judge(u *underway, eval *api.Evaluation, next *api.Allocation) (healthy bool, err error) {
	switch {
	case next == nil && eval.Status == "failed":
		return false, fmt.Errorf("evaluation %s failed: %s", eval.ID, eval.StatusDescription)
	case next == nil && eval.Status == "complete":
		return false, fmt.Errorf("the scheduler found no node for its replacement: see 'nomad eval status %s'", eval.ID)
	case next == nil:
		return false, nil
	case next.NodeID != u.ToID:
		return false, fmt.Errorf("its replacement %s was placed on node %s, because node %s no longer had room", next.ID, next.NodeID, u.ToID)
	case next.ClientStatus != "pending" && next.ClientStatus != "running":
		return false, fmt.Errorf("its replacement %s is %s", next.ID, next.ClientStatus)
	}
	health := next.DeploymentStatus
	if health == nil || health.Healthy == nil {
		return false, nil
	}
	if !*health.Healthy {
		return false, fmt.Errorf("its replacement %s is not healthy", next.ID)
	}
	return true, nil
}
