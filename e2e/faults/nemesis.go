//go:build linux

package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Duration of a fault after it took effect, and of the pause before the next.
const (
	holdLeast = 2 * time.Second // long enough for gossip and heartbeats to notice
	holdMore  = 3 * time.Second // random addition
	restMost  = 2 * time.Second
)

// Nemesis causes one fault after the other in a cluster. Its seed determines the order; each kind
// occurs once per round.
//
//	whole ──strike──▶ took effect ──hold──▶ undone ──all follow one leader, and vote──▶ whole
type Nemesis struct {
	Log *slog.Logger
	// Only, if not empty, names the faults to use.
	Only []string

	cluster *Cluster
	rng     *rand.Rand
	done    map[string]int
	struck  atomic.Int64
}

// NewNemesis returns the nemesis of a cluster.
func NewNemesis(c *Cluster, seed uint64, log *slog.Logger) *Nemesis {
	return &Nemesis{Log: log, cluster: c, rng: rand.New(rand.NewPCG(seed, 1)), done: map[string]int{}}
}

// Done returns the number of faults by name.
func (n *Nemesis) Done() map[string]int { return n.done }

// Struck returns the number of faults that took effect. It is safe for concurrent use.
func (n *Nemesis) Struck() int64 { return n.struck.Load() }

// Run causes faults for a duration and undoes each of them. It returns an error if a fault did not
// take effect, or if the cluster did not recover.
func (n *Nemesis) Run(ctx context.Context, lasting time.Duration) error {
	end := time.Now().Add(lasting)
	for {
		round := n.chosen()
		if len(round) == 0 {
			return fmt.Errorf("no fault is called one of %v", n.Only)
		}
		n.rng.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		for _, f := range round {
			if time.Now().After(end) {
				return nil
			}
			if err := n.one(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
}

// chosen lists the faults to use.
func (n *Nemesis) chosen() []fault {
	return slices.DeleteFunc(faults(), func(f fault) bool { return len(n.Only) > 0 && !slices.Contains(n.Only, f.name) })
}

// one causes a fault, undoes it and waits until the cluster is healthy again.
func (n *Nemesis) one(ctx context.Context, f fault) error {
	leader, err := n.cluster.Agree(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	undo, err := f.strike(ctx, &victims{n.cluster, leader, n.rng})
	if err != nil {
		return err
	}
	n.struck.Add(1)
	took := time.Since(began)
	if err := pause(ctx, holdLeast+rand64(n.rng, holdMore)); err != nil {
		return err
	}
	if undo != nil {
		if err := undo(ctx); err != nil {
			return fmt.Errorf("undo: %w", err)
		}
	}
	began = time.Now()
	next, err := n.cluster.Agree(ctx)
	if err == nil {
		err = (&victims{n.cluster, next, n.rng}).complete(ctx)
	}
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	n.done[f.name]++
	n.Log.Info("fault", "name", f.name, "leader", leader.Name, "effect_after", took.Round(time.Millisecond),
		"whole_after", time.Since(began).Round(time.Millisecond), "then", next.Name)
	return pause(ctx, rand64(n.rng, restMost))
}

func rand64(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}

// pause waits: the duration of a fault is part of the test.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
