// Package heartbeat watches that nodes tell of themselves, and reports those that
// do not as down.
//
//	silent ──Reset──▶ counted ──Reset──▶ counted
//	                     │  └────Clear────▶ silent
//	                     └──time is over──▶ reporting ──written──▶ silent
//	                                           └──failed──▶ counted
//
// Each beat gives the node a time to live: max(MinTTL, nodes / MaxPerSecond), plus
// as much again at random, so that the beats of many nodes spread out and their
// rate is bounded. A node may be late by Grace. After a change of leaders every
// node has FailoverTTL, since the new leader does not know when it beat last; a
// living one beats much sooner, though (Silent).
//
// What follows from a node that is down (evaluations of its jobs) is the business
// of Node.UpdateStatus. The timers live on the leader only: one goroutine waits for
// the nearest, and a few more report.
package heartbeat

import (
	"container/heap"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// reporters bounds how many nodes are reported at once.
	reporters = 16
	// reportAgain is the wait after a report failed.
	reportAgain = 5 * time.Second
	// reportWithin bounds one report.
	reportWithin = 30 * time.Second
	// missed is the event that a node keeps of its silence.
	missed = "Node missed its heartbeat"
	// measureEvery is how often the identities of nodes are looked at.
	measureEvery = 5 * time.Second
)

// earliest is the metric of the identity that ends first.
var earliest = []string{"nomad", "node_identity", "earliest_expiry"}

// Caller calls RPC methods.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Config of Timers. A zero field has the default.
type Config struct {
	RPC    Caller
	Region string
	// MinTTL is the least time to live. Default 10 s.
	MinTTL time.Duration
	// MaxPerSecond is the rate of beats that TTLs aim at. Default 50.
	MaxPerSecond float64
	// Grace is how late a beat may be. Default 10 s.
	Grace time.Duration
	// FailoverTTL is the time to live under a new leader. Default 300 s.
	FailoverTTL time.Duration
	Log         *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MinTTL <= 0 {
		c.MinTTL = 10 * time.Second
	}
	if c.MaxPerSecond <= 0 {
		c.MaxPerSecond = 50
	}
	if c.Grace <= 0 {
		c.Grace = 10 * time.Second
	}
	if c.FailoverTTL <= 0 {
		c.FailoverTTL = 300 * time.Second
	}
	return c
}

// Timers count down the time to live of every node.
type Timers struct {
	cfg Config

	mu      sync.Mutex
	leading bool
	timers  deadlines
	nodes   map[string]*deadline
	wake    chan struct{} // holds a value when the nearest deadline moved closer
}

// New returns Timers that count nothing until they run.
func New(cfg Config) *Timers {
	return &Timers{cfg: cfg.withDefaults(), nodes: make(map[string]*deadline), wake: make(chan struct{}, 1)}
}

// Run counts until ctx ends, beginning with those of the nodes that are not down.
func (t *Timers) Run(ctx context.Context, nodes []*nomad.Node) error {
	t.lead(nodes)
	defer t.resign()
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { t.measure(ctx) })
	slots := make(chan struct{}, reporters)
	for ctx.Err() == nil {
		id, wait := t.next()
		if id == "" {
			t.pause(ctx, wait)
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		reports.Go(func() {
			defer func() { <-slots }()
			t.report(ctx, id)
		})
	}
	return ctx.Err()
}

func (t *Timers) lead(nodes []*nomad.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leading = true
	heard := time.Now().Add(2*t.base(len(nodes)) + t.cfg.Grace)
	for _, n := range nodes {
		if !n.TerminalStatus() && t.nodes[n.ID] == nil {
			t.set(n.ID, t.cfg.FailoverTTL)
			t.nodes[n.ID].heard = heard
		}
	}
}

func (t *Timers) resign() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leading = false
	t.timers, t.nodes = nil, make(map[string]*deadline)
}

// Reset counts a heartbeat of the node and returns within which time it must send
// the next one. A server that does not lead answers with MinTTL and counts nothing.
func (t *Timers) Reset(nodeID string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		return t.cfg.MinTTL
	}
	base := t.base(len(t.nodes))
	ttl := base + rand.N(base)
	t.set(nodeID, ttl+t.cfg.Grace)
	return ttl
}

// base is the least time to live among so many nodes.
func (t *Timers) base(nodes int) time.Duration {
	return max(t.cfg.MinTTL, time.Duration(float64(nodes)/t.cfg.MaxPerSecond*float64(time.Second)))
}

// Silent returns in what time a node will have missed its heartbeat unless it sends
// one, zero when it has, or is down. A server that does not lead knows of none.
func (t *Timers) Silent(nodeID string) (in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		return t.cfg.MinTTL + t.cfg.Grace
	}
	d := t.nodes[nodeID]
	if d == nil {
		return 0
	}
	return max(time.Until(d.heard), 0)
}

// Identified notes when the identity ends with which a node was heard.
func (t *Timers) Identified(nodeID string, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.nodes[nodeID]; d != nil {
		d.identity = ends
	}
}

// Earliest returns when the first of the identities ends that nodes were heard with,
// the zero time when there is none.
func (t *Timers) Earliest() (ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.nodes {
		if ends.IsZero() || !d.identity.IsZero() && d.identity.Before(ends) {
			ends = d.identity
		}
	}
	return ends
}

// measure tells in how many seconds the first identity ends, until ctx does.
func (t *Timers) measure(ctx context.Context) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if ends := t.Earliest(); !ends.IsZero() {
			metrics.SetGauge(earliest, float32(time.Until(ends).Seconds()))
		}
	}
}

// Clear stops counting for a node that is down or gone.
func (t *Timers) Clear(nodeID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.nodes[nodeID]; d != nil {
		heap.Remove(&t.timers, d.at)
		delete(t.nodes, nodeID)
	}
}

// Active returns the number of nodes that are counted.
func (t *Timers) Active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.nodes)
}

// set gives the node d from now. t.mu is held.
func (t *Timers) set(nodeID string, d time.Duration) {
	due := time.Now().Add(d)
	if old := t.nodes[nodeID]; old != nil {
		old.due, old.heard = due, due
		heap.Fix(&t.timers, old.at)
	} else {
		added := &deadline{node: nodeID, due: due, heard: due}
		t.nodes[nodeID] = added
		heap.Push(&t.timers, added)
	}
	if t.timers[0].node == nodeID {
		select {
		case t.wake <- struct{}{}:
		default: // a value is there already
		}
	}
}

// next returns a node whose time is over, or how long until that may be so; a
// negative wait is until another node comes.
func (t *Timers) next() (nodeID string, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.timers) == 0 {
		return "", -1
	}
	first := t.timers[0]
	if wait = time.Until(first.due); wait > 0 {
		return "", wait
	}
	heap.Pop(&t.timers)
	delete(t.nodes, first.node)
	return first.node, 0
}

func (t *Timers) pause(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-t.wake:
	case <-due:
	}
}

// report tells that a node is down. If that fails it is tried again, unless the
// node beats meanwhile.
func (t *Timers) report(ctx context.Context, nodeID string) {
	now := time.Now()
	req := &nomad.NodeUpdateStatusRequest{
		NodeID:       nodeID,
		Status:       nomad.NodeStatusDown,
		NodeEvent:    &nomad.NodeEvent{Message: missed, Subsystem: nomad.NodeEventSubsystemHeartbeat, Timestamp: now},
		UpdatedAt:    now.Unix(),
		WriteRequest: nomad.WriteRequest{Region: t.cfg.Region},
	}
	t.cfg.Log.Warn("node missed its heartbeat", "node", nodeID)
	defer metrics.MeasureSince([]string{"nomad", "heartbeat", "invalidate"}, now)
	within, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	err := t.cfg.RPC.Call(within, "Node.UpdateStatus", req, &nomad.NodeUpdateResponse{})
	if err == nil || ctx.Err() != nil || errors.Is(err, nomad.ErrNodeNotFound) {
		return
	}
	t.cfg.Log.Warn("report node down", "node", nodeID, "err", err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leading && t.nodes[nodeID] == nil {
		t.set(nodeID, reportAgain)
	}
}

// deadline is when a node's time is over.
type deadline struct {
	node  string
	due   time.Time
	heard time.Time // until when a living node has beaten; not after due
	at    int       // index in the heap
	// identity is when the identity ends that the node was heard with; zero is unknown.
	identity time.Time
}

// deadlines is a container/heap, the nearest first.
type deadlines []*deadline

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h deadlines) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].at, h[j].at = i, j }

func (h *deadlines) Push(x any) {
	d := x.(*deadline)
	d.at = len(*h)
	*h = append(*h, d)
}

func (h *deadlines) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
