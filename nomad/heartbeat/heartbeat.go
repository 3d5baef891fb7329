// Package heartbeat tracks the heartbeats of nodes and marks those that miss them as down.
//
//	silent ──Reset──▶ counted ──Reset──▶ counted
//	                     │  └────Clear────▶ silent
//	                     └──TTL expired──▶ reporting ──written──▶ silent
//	                                           └──failed──▶ counted
//
// Each heartbeat gives the node a TTL: max(MinTTL, nodes / MaxPerSecond), plus a random part of up
// to the same length. So heartbeats are spread out and their rate is bounded. Grace is the accepted
// delay. After a leader election every node gets FailoverTTL, since the new leader does not know
// the last heartbeat. A live node sends one much sooner (see Silent).
//
// Node.UpdateStatus creates the evaluations of a node that is down; this package does not. The
// timers exist on the leader only. One goroutine waits for the nearest deadline, and a bounded
// number of others send reports. A node is counted until its report has a slot, so that a heartbeat before that is not lost.
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

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// reporters is the maximum number of concurrent reports.
	reporters = 16
	// reportAgain is the delay after a failed report.
	reportAgain = 5 * time.Second
	// reportWithin bounds one report.
	reportWithin = 30 * time.Second
	// missed is the node event of a missed heartbeat.
	missed = "Node missed its heartbeat"
	// measureEvery is the interval of the metric below.
	measureEvery = 5 * time.Second
)

// earliest is the metric of the earliest identity expiration.
var earliest = []string{"nomad", "node_identity", "earliest_expiry"}

// Config of Timers. A zero field selects the default.
type Config struct {
	RPC    message.Caller
	Region string
	// MinTTL is the minimum TTL. Default 10 s.
	MinTTL time.Duration
	// MaxPerSecond is the target rate of heartbeats. Default 50.
	MaxPerSecond float64
	// Grace is the accepted delay of a heartbeat. Default 10 s.
	Grace time.Duration
	// FailoverTTL is the TTL after a leader election. Default 300 s.
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

// Timers track the TTL of every node.
type Timers struct {
	cfg Config

	mu      sync.Mutex
	leading bool
	timers  deadlines
	nodes   map[string]*deadline
	wake    wake.Signal // holds a value if the nearest deadline moved closer
}

// New returns Timers. They track nothing until Lead is called.
func New(cfg Config) *Timers {
	return &Timers{cfg: cfg.withDefaults(), nodes: make(map[string]*deadline), wake: wake.New()}
}

// Run reports the nodes that miss heartbeats until ctx ends. Lead must be called before.
func (t *Timers) Run(ctx context.Context) error {
	defer t.resign()
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { t.measure(ctx) })
	slots := make(chan struct{}, reporters)
	for ctx.Err() == nil {
		if wait := t.untilDue(); wait != 0 {
			t.pause(ctx, wait)
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		id := t.takeDue()
		if id == "" { // it sent a heartbeat while the report waited for a slot
			<-slots
			continue
		}
		reports.Go(func() {
			defer func() { <-slots }()
			t.report(ctx, id)
		})
	}
	return ctx.Err()
}

// Lead begins with the nodes that are not down. A leader calls it before it answers nodes: without a
// timer, a node that registers then would count as silent, and would never be marked as down.
func (t *Timers) Lead(nodes []*nomad.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leading = true
	liveUntil := time.Now().Add(2*t.base(len(nodes)) + t.cfg.Grace)
	for _, n := range nodes {
		if !n.TerminalStatus() && t.nodes[n.ID] == nil {
			t.set(n.ID, t.cfg.FailoverTTL)
			t.nodes[n.ID].liveUntil = liveUntil
		}
	}
}

func (t *Timers) resign() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leading = false
	t.timers, t.nodes = nil, make(map[string]*deadline)
}

// Reset records a heartbeat of the node and returns the TTL for the next one. On a server that is
// not the leader it returns MinTTL and records nothing.
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

// base returns the minimum TTL for this number of nodes.
func (t *Timers) base(nodes int) time.Duration {
	return max(t.cfg.MinTTL, time.Duration(float64(nodes)/t.cfg.MaxPerSecond*float64(time.Second)))
}

// UntilMissed returns the time after which a node without a further heartbeat counts as silent. It is
// zero if the node is silent already or down. A server that is not the leader returns zero.
func (t *Timers) UntilMissed(nodeID string) (in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		return t.cfg.MinTTL + t.cfg.Grace
	}
	d := t.nodes[nodeID]
	if d == nil {
		return 0
	}
	return max(time.Until(d.liveUntil), 0)
}

// SetIdentityExpiry records when the identity expires that a node used in its heartbeat.
func (t *Timers) SetIdentityExpiry(nodeID string, ends time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.nodes[nodeID]; d != nil {
		d.identity = ends
	}
}

// Earliest returns the earliest expiration of the recorded identities, or the zero time.
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

// measure updates the metric of the earliest expiration until ctx ends.
func (t *Timers) measure(ctx context.Context) {
	_ = every.Tick(ctx, measureEvery, func() { // its error is that of ctx
		if ends := t.Earliest(); !ends.IsZero() {
			metrics.SetGauge(earliest, float32(time.Until(ends).Seconds()))
		}
	})
}

// Clear stops tracking a node that is down or deleted.
func (t *Timers) Clear(nodeID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.nodes[nodeID]; d != nil {
		heap.Remove(&t.timers, d.at)
		delete(t.nodes, nodeID)
	}
}

// Active returns the number of tracked nodes.
func (t *Timers) Active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.nodes)
}

// set sets the deadline of the node to d from now. The caller holds t.mu.
func (t *Timers) set(nodeID string, d time.Duration) {
	due := time.Now().Add(d)
	if old := t.nodes[nodeID]; old != nil {
		old.due, old.liveUntil = due, due
		heap.Fix(&t.timers, old.at)
	} else {
		added := &deadline{node: nodeID, due: due, liveUntil: due}
		t.nodes[nodeID] = added
		heap.Push(&t.timers, added)
	}
	if t.timers[0].node == nodeID {
		t.wake.Send()
	}
}

// untilDue returns the time until the nearest deadline, 0 if it has expired. A negative time means until another node is
// added.
func (t *Timers) untilDue() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.timers) == 0 {
		return -1
	}
	return max(time.Until(t.timers[0].due), 0)
}

// takeDue stops tracking the node with the nearest deadline and returns its ID, or "" if no deadline has expired.
func (t *Timers) takeDue() (nodeID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.timers) == 0 || time.Until(t.timers[0].due) > 0 {
		return ""
	}
	first := heap.Pop(&t.timers).(*deadline)
	delete(t.nodes, first.node)
	return first.node
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

// report marks a node as down. It retries a failed report unless the node sends a heartbeat in the
// meantime.
func (t *Timers) report(ctx context.Context, nodeID string) {
	now := time.Now()
	req := &message.NodeUpdateStatusRequest{
		NodeID:       nodeID,
		Status:       nomad.NodeStatusDown,
		NodeEvent:    &nomad.NodeEvent{Message: missed, Subsystem: nomad.NodeEventSubsystemHeartbeat, Timestamp: now},
		UpdatedAt:    now.Unix(),
		WriteRequest: message.WriteRequest{Region: t.cfg.Region},
	}
	t.cfg.Log.Warn("node missed its heartbeat", "node", nodeID)
	defer metrics.MeasureSince([]string{"nomad", "heartbeat", "invalidate"}, now)
	within, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	err := t.cfg.RPC.Call(within, "Node.UpdateStatus", req, &message.NodeUpdateResponse{})
	if err == nil || ctx.Err() != nil || errors.Is(err, apierror.ErrNodeNotFound) {
		return
	}
	t.cfg.Log.Warn("report node down", "node", nodeID, "err", err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leading && t.nodes[nodeID] == nil {
		t.set(nodeID, reportAgain)
	}
}

// deadline is the deadline of a node.
type deadline struct {
	node      string
	due       time.Time
	liveUntil time.Time // latest time of a live node's next heartbeat; not after due
	at        int       // index in the heap
	// identity is the expiration of the identity used in the heartbeat; zero if unknown.
	identity time.Time
}

// deadlines implements heap.Interface, the nearest first.
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
