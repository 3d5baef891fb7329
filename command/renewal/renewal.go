// Package renewal has many nodes ask for new identities, spread over time: servers
// sign, and write to their log, for each of them. It tells how it goes, and which
// nodes could not be reached.
//
// One goroutine per node that is being asked, at most Together at once; all end with
// Run.
package renewal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Together is how many nodes are waited for at once.
const Together = 32

const (
	each         = 20 * time.Millisecond // the rate of heartbeats that servers aim at
	answerWithin = 15 * time.Second
	tellEvery    = 5 * time.Second
)

// Flags is what an operator says of the spreading.
type Flags struct{ over string }

// Declare adds -over to the flags of a command.
func (r *Flags) Declare(f *term.Flags) {
	f.StringVar(&r.over, "over", "", "Spread the renewals over this `time`. Default: 20ms for each node; 0s asks all at once.")
}

// Given says whether -over is there.
func (r *Flags) Given() bool { return r.over != "" }

// Over returns the time for so many nodes.
func (r *Flags) Over(nodes int) (time.Duration, error) {
	if r.over == "" {
		return time.Duration(nodes) * each, nil
	}
	d, err := time.ParseDuration(r.over)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("-over %q is not a time such as 5m", r.over)
	}
	return d, nil
}

// Run asks every node for a renewal, evenly over the time that the flags give. It
// fails when one could not be reached.
func (r *Flags) Run(ctx context.Context, e *term.Env, c *api.Client, nodes []*api.NodeListStub) error {
	over, err := r.Over(len(nodes))
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		e.Println("No nodes")
		return nil
	}
	e.Printf("%s to ask for a new identity, over %s\n", count(len(nodes)), over)
	p := &progress{e: e, all: len(nodes), told: time.Now()}
	slots := make(chan struct{}, Together)
	var asking sync.WaitGroup
	begun := time.Now()
	for i, n := range nodes {
		if wait(ctx, time.Until(begun.Add(over*time.Duration(i)/time.Duration(len(nodes))))) != nil {
			break
		}
		slots <- struct{}{} // each is given back within answerWithin
		asking.Go(func() {
			defer func() { <-slots }()
			p.done(n, ask(ctx, c, n))
		})
	}
	asking.Wait()
	return p.report(ctx)
}

// wait waits, unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// ask has one node ask for a new identity.
func ask(ctx context.Context, c *api.Client, n *api.NodeListStub) error {
	if n.Status == api.NodeStatusDown || n.Status == api.NodeStatusDisconnected {
		return fmt.Errorf("the node is %s", n.Status)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := c.Nodes().Identity().Renew(&api.NodeIdentityRenewRequest{NodeID: n.ID}, (&api.QueryOptions{}).WithContext(ctx))
	return err
}

// progress counts the nodes that were asked.
type progress struct {
	e   *term.Env
	all int

	mu     sync.Mutex
	asked  int
	told   time.Time
	failed []string // rows
}

func (p *progress) done(n *api.NodeListStub, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if err != nil {
		p.failed = append(p.failed, term.Row(n.ID, n.Name, n.NodePool, strings.ReplaceAll(err.Error(), "\n", " ")))
	}
	if now := time.Now(); p.asked < p.all && now.Sub(p.told) >= tellEvery {
		p.told = now
		p.e.Printf("%d of %d asked, %d not reached\n", p.asked, p.all, len(p.failed))
	}
}

func (p *progress) report(ctx context.Context) error {
	p.e.Printf("%d of %d asked, %d not reached\n", p.asked, p.all, len(p.failed))
	if len(p.failed) > 0 {
		slices.Sort(p.failed)
		p.e.Println("\n" + term.Table(append([]string{"ID|Name|Node Pool|Why"}, p.failed...)))
	}
	switch left := p.all - p.asked; {
	case left > 0 && ctx.Err() != nil:
		return fmt.Errorf("ended before %s: %w", count(left), ctx.Err())
	case len(p.failed) > 0:
		return fmt.Errorf("%s could not be reached", count(len(p.failed)))
	}
	return nil
}

func count(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
