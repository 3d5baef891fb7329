//go:build linux

package faults

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
)

// How long a fault lasts after it took effect, and the rest before the next.
const (
	holdLeast = 2 * time.Second // long enough to be missed by gossip and heartbeats
	holdMore  = 3 * time.Second // by chance, on top
	restMost  = 2 * time.Second
)

// Nemesis does one fault after the other to a cluster, in an order that its seed
// decides, each kind once a round.
//
//	whole ──strike──▶ took effect ──hold──▶ undone ──all follow one leader──▶ whole
type Nemesis struct {
	Log *slog.Logger
	// Only, when it is not empty, names the faults to choose from.
	Only []string

	cluster *Cluster
	rng     *rand.Rand
	done    map[string]int
}

// NewNemesis makes the nemesis of a cluster.
func NewNemesis(c *Cluster, seed uint64, log *slog.Logger) *Nemesis {
	return &Nemesis{Log: log, cluster: c, rng: rand.New(rand.NewPCG(seed, 1)), done: map[string]int{}}
}

// Done counts the faults that were done, by name.
func (n *Nemesis) Done() map[string]int { return n.done }

// Run does faults for a while; none is left half done. An error says that a fault
// did not take effect, or that the cluster did not recover from it.
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

// chosen lists the faults to choose from.
func (n *Nemesis) chosen() []fault {
	return slices.DeleteFunc(faults(), func(f fault) bool { return len(n.Only) > 0 && !slices.Contains(n.Only, f.name) })
}

// one does a fault, undoes it and waits until the cluster is whole again.
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

// pause waits: how long a fault lasts is what is tested.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
