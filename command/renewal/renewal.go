// Package renewal makes many nodes renew their identities. It spreads the requests over
// time, because each renewal costs the servers a signature and a log entry. It prints the
// progress, and the nodes that it could not reach.
//
// There is one goroutine per pending request, at most MaxPending. All end before Run returns.
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
	"github.com/open-nomad/open-nomad/internal/backoff"
)

// MaxPending is the maximum number of pending requests.
const MaxPending = 32

const (
	each         = 20 * time.Millisecond // the target rate of heartbeats
	answerWithin = 15 * time.Second
	printEvery   = 5 * time.Second
)

// Flags holds the flag -over.
type Flags struct{ over string }

// Declare declares -over.
func (r *Flags) Declare(f *term.Flags) {
	f.StringVar(&r.over, "over", "", "Spread the renewals over this `duration`. Default: 20ms per node. With 0s all nodes renew at once.")
}

// IsSet reports whether -over is set.
func (r *Flags) IsSet() bool { return r.over != "" }

// Over returns the duration for a number of nodes.
func (r *Flags) Over(nodes int) (time.Duration, error) {
	if r.over == "" {
		return time.Duration(nodes) * each, nil
	}
	d, err := time.ParseDuration(r.over)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("-over %q: expected a duration such as 5m", r.over)
	}
	return d, nil
}

// Run makes every node renew its identity, evenly spread over the duration. It returns an
// error if a node could not be reached.
func (r *Flags) Run(ctx context.Context, e *term.Env, c *api.Client, nodes []*api.NodeListStub) error {
	over, err := r.Over(len(nodes))
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		e.Println("No nodes")
		return nil
	}
	e.Printf("Renewing the identity of %s over %s\n", count(len(nodes)), over)
	p := &progress{e: e, all: len(nodes), printed: time.Now()}
	slots := make(chan struct{}, MaxPending)
	var asking sync.WaitGroup
	begun := time.Now()
	for i, n := range nodes {
		if backoff.Sleep(ctx, time.Until(begun.Add(over*time.Duration(i)/time.Duration(len(nodes))))) != nil {
			break
		}
		slots <- struct{}{} // released within answerWithin
		asking.Go(func() {
			defer func() { <-slots }()
			p.done(n, ask(ctx, c, n))
		})
	}
	asking.Wait()
	return p.report(ctx)
}

// ask makes one node renew its identity.
func ask(ctx context.Context, c *api.Client, n *api.NodeListStub) error {
	if n.Status == api.NodeStatusDown || n.Status == api.NodeStatusDisconnected {
		return fmt.Errorf("the node is %s", n.Status)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := c.Nodes().Identity().Renew(&api.NodeIdentityRenewRequest{NodeID: n.ID}, (&api.QueryOptions{}).WithContext(ctx))
	return err
}

// progress counts the finished requests.
type progress struct {
	e   *term.Env
	all int

	mu      sync.Mutex
	asked   int
	printed time.Time
	failed  []string // rows
}

func (p *progress) done(n *api.NodeListStub, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if err != nil {
		p.failed = append(p.failed, term.Row(n.ID, n.Name, n.NodePool, strings.ReplaceAll(err.Error(), "\n", " ")))
	}
	if now := time.Now(); p.asked < p.all && now.Sub(p.printed) >= printEvery {
		p.printed = now
		p.e.Printf("%d of %d nodes done, %d failed\n", p.asked, p.all, len(p.failed))
	}
}

func (p *progress) report(ctx context.Context) error {
	p.e.Printf("%d of %d nodes done, %d failed\n", p.asked, p.all, len(p.failed))
	if len(p.failed) > 0 {
		slices.Sort(p.failed)
		p.e.Println("\n" + term.Table(append([]string{"ID|Name|Node Pool|Error"}, p.failed...)))
	}
	switch left := p.all - p.asked; {
	case left > 0 && ctx.Err() != nil:
		return fmt.Errorf("stopped before %s: %w", count(left), ctx.Err())
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
