package identity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/identity"
	clientservers "github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// size is the size of a soak.
type size struct {
	lasting time.Duration // minimum; longer on a busy machine
	allocs  int
	ttl     time.Duration
	calm    time.Duration // between two faults
}

// soakSize is small, unless IDENTITY_SOAK sets a duration (such as 20m): then it has the size of
// the project's figure.
func soakSize(t *testing.T) size {
	t.Helper()
	text := os.Getenv("IDENTITY_SOAK")
	if text == "" {
		return size{lasting: 30 * time.Second, allocs: 300, ttl: 18 * time.Second, calm: 2 * time.Second}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("IDENTITY_SOAK is no duration such as 20m: %v", err)
	}
	return size{lasting: d, allocs: 1000, ttl: time.Minute, calm: 15 * time.Second}
}

// soak is a cluster, with nodes that it cannot distinguish from real ones, and the tokens of their
// allocations. The token manager of the client is the real one.
type soak struct {
	size
	t      *testing.T
	s      *harness.Servers
	pool   *rpc.Pool
	remote *clientservers.Remote
	nodes  []*soakNode
	allocs []*nomad.Allocation

	mu      sync.Mutex
	tokens  map[string]observedToken // by allocation
	renewed []time.Time              // request times of the renewals
	wrong   map[string]int
	shown   int
	paused  []time.Time // when this process continued after a stall
}

type observedToken struct {
	raw string
	exp time.Time
}

// soakNode is a node that sends heartbeats and runs nothing. Its allocations use it to reach the
// servers.
type soakNode struct {
	k    *soak
	node *nomad.Node

	mu    sync.Mutex
	token string
}

// Identities survive killed leaders and rotated keys: no held token ever expires, no server rejects
// a valid one, and renewals are spread over time.
func TestIdentitySoak(t *testing.T) {
	k := startSoak(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for _, n := range k.nodes {
		all.Go(func() { n.live(ctx) })
	}
	k.place(ctx)
	began := time.Now()
	for _, alloc := range k.allocs {
		k.hold(ctx, &all, alloc)
	}
	k.within(harness.Patience, "every allocation holds a token", func() bool { return len(k.now()) == len(k.allocs) })
	all.Go(func() { k.watch(ctx) })
	for _, a := range k.s.All {
		all.Go(func() { k.show(ctx, fmt.Sprintf("127.0.0.1:%d", a.RPC)) })
	}
	kills, rotations := k.faults(began.Add(k.lasting))
	cancel()
	all.Wait()
	k.judge(began, kills, rotations)
}

func startSoak(t *testing.T) *soak {
	t.Helper()
	k := &soak{size: soakSize(t), t: t, s: harness.StartServers(t), tokens: map[string]observedToken{}, wrong: map[string]int{}}
	k.pool = rpc.NewPool(rpc.PoolConfig{MaxIdleStreams: 64})
	t.Cleanup(func() { k.pool.Close() })
	var addrs []string
	for _, a := range k.s.All {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", a.RPC))
	}
	k.remote = clientservers.New(k.pool, "global", addrs, slog.New(slog.DiscardHandler))
	for i := range k.size.allocs/100 + 1 {
		n := &soakNode{k: k, node: &nomad.Node{ID: nomad.NewID(), SecretID: nomad.NewID(), Name: fmt.Sprintf("sim-%d", i), Datacenter: "dc1",
			NodePool:   "default",
			Attributes: map[string]string{"nomad.version": "2.0.6", "kernel.name": "linux", "driver.mock_driver": "1"},
			Drivers:    map[string]*nomad.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
			NodeResources: &nomad.NodeResources{Cpu: nomad.LegacyNodeCpuResources{CpuShares: 40000, TotalCpuCores: 4},
				Memory: nomad.NodeMemoryResources{MemoryMB: 1 << 20},
				Disk:   nomad.NodeDiskResources{DiskMB: 1 << 20}, MinDynamicPort: 20000, MaxDynamicPort: 32000},
			Status: nomad.NodeStatusInit}}
		k.nodes = append(k.nodes, n)
		if _, err := n.beat(t.Context(), "Node.Register",
			&message.NodeRegisterRequest{Node: n.node, WriteRequest: message.WriteRequest{Region: "global"}}); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// beat sends a heartbeat or registration and stores the new identity.
func (n *soakNode) beat(ctx context.Context, method string, req any) (time.Duration, error) {
	var out message.NodeUpdateResponse
	if err := n.k.remote.Call(ctx, method, req, &out); err != nil {
		return 0, err
	}
	if out.SignedIdentity != nil {
		n.mu.Lock()
		n.token = *out.SignedIdentity
		n.mu.Unlock()
	}
	return out.HeartbeatTTL, nil
}

func (n *soakNode) auth() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.token
}

// live sends heartbeats until ctx ends.
func (n *soakNode) live(ctx context.Context) {
	for ctx.Err() == nil {
		ttl, err := n.beat(ctx, "Node.UpdateStatus",
			&message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusReady, UpdatedAt: time.Now().Unix(),
				WriteRequest: message.WriteRequest{Region: "global", AuthToken: n.auth()}})
		wait := ttl / 2
		if err != nil {
			wait = 200 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// Call implements message.Caller.
func (n *soakNode) Call(ctx context.Context, method string, req, resp any) error {
	req.(*message.AllocIdentitiesRequest).AuthToken = n.auth()
	asked := time.Now()
	err := n.k.remote.Call(ctx, method, req, resp)
	if err == nil {
		n.k.mu.Lock()
		n.k.renewed = append(n.k.renewed, asked)
		n.k.mu.Unlock()
	}
	return err
}

// place registers the job, and reports that its tasks run.
func (k *soak) place(ctx context.Context) {
	k.t.Helper()
	_, _ = harness.Run(k.t, k.s.All[0], fmt.Sprintf(`job "soak" {
  group "soak" {
    count = %d
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "24h"
      }
      identity {
        name = "api"
        aud  = ["nomadproject.io"]
        ttl  = %q
      }
      resources {
        cpu    = 1
        memory = 10
      }
    }
  }
}`, k.size.allocs, k.ttl))
	read := func(n *soakNode) message.QueryOptions {
		return message.QueryOptions{Region: "global", AuthToken: n.auth()}
	}
	k.within(harness.Patience, "all allocations are placed", func() bool {
		k.allocs = nil
		for _, n := range k.nodes {
			var list message.NodeClientAllocsResponse
			var full message.AllocsGetResponse
			get := &message.AllocsGetRequest{QueryOptions: read(n)}
			if err := k.remote.Call(ctx, "Node.GetClientAllocs",
				&message.NodeSpecificRequest{NodeID: n.node.ID, SecretID: n.node.SecretID, QueryOptions: read(n)}, &list); err != nil {
				return false
			}
			for id := range list.Allocs {
				get.AllocIDs = append(get.AllocIDs, id)
			}
			if len(get.AllocIDs) > 0 && k.remote.Call(ctx, "Alloc.GetAllocs", get, &full) != nil {
				return false
			}
			k.allocs = append(k.allocs, full.Allocs...)
		}
		return len(k.allocs) == k.size.allocs
	})
	for _, n := range k.nodes {
		req := &message.AllocUpdateRequest{WriteRequest: message.WriteRequest{Region: "global", AuthToken: n.auth()}}
		for _, a := range k.allocs {
			if a.NodeID == n.node.ID {
				req.Alloc = append(req.Alloc, &nomad.Allocation{ID: a.ID, NodeID: a.NodeID, ClientStatus: nomad.AllocClientStatusRunning})
			}
		}
		if len(req.Alloc) == 0 {
			continue // the node was not ready when the job was registered
		}
		if err := k.remote.Call(ctx, "Node.UpdateAlloc", req, &message.GenericResponse{}); err != nil {
			k.t.Fatal(err)
		}
	}
}

// hold manages the tokens of an allocation, like its node.
func (k *soak) hold(ctx context.Context, all *sync.WaitGroup, alloc *nomad.Allocation) {
	var through *soakNode
	for _, n := range k.nodes {
		if n.node.ID == alloc.NodeID {
			through = n
		}
	}
	m := identity.New(identity.Config{Alloc: alloc, Region: "global", RPC: through, Store: forgetful{}, Log: slog.New(slog.DiscardHandler)})
	tokens, stop := m.Watch(identity.TaskHandle("t", "api"))
	all.Go(func() {
		if err := m.Prepare(ctx); err != nil {
			k.note("prepare: " + err.Error())
			return
		}
		_ = m.Run(ctx) // until ctx ends
	})
	all.Go(func() {
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case token := <-tokens:
				k.take(alloc.ID, token.Reveal())
			}
		}
	})
}

// forgetful stores nothing: no agent restarts here.
type forgetful struct{}

func (forgetful) Identities(string) ([]*message.SignedWorkloadIdentity, error)  { return nil, nil }
func (forgetful) PutIdentities(string, []*message.SignedWorkloadIdentity) error { return nil }

// take replaces the held token of an allocation.
func (k *soak) take(alloc, raw string) {
	now := time.Now()
	left, err := lifeOf(raw, now)
	if err != nil {
		k.note("a new token: " + err.Error())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens[alloc] = observedToken{raw, now.Add(left)}
}

func (k *soak) note(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wrong[what]++
}

// now returns the current tokens.
func (k *soak) now() []observedToken {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]observedToken, 0, len(k.tokens))
	for _, h := range k.tokens {
		out = append(out, h)
	}
	return out
}

// watch searches for expired tokens.
func (k *soak) watch(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, late := time.Now(), time.Time{}
	for {
		now := time.Now()                             // newer tokens may be held after all were checked
		if stood := now.Sub(last); stood > k.ttl/12 { // the holders stalled, too
			k.mu.Lock()
			k.paused = append(k.paused, now)
			k.mu.Unlock()
			late = now.Add(stood)
		}
		last = now
		for _, h := range k.now() {
			if now.After(h.exp) && now.After(late) {
				k.note("a token is held that is over")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// show presents one token after the other to a server, which answers from its own state.
func (k *soak) show(ctx context.Context, addr string) {
	for ctx.Err() == nil {
		tokens := k.now()
		h := tokens[rand.N(len(tokens))]
		req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: h.raw, AllowStale: true}}
		err := k.pool.Call(ctx, addr, "ACL.WhoAmI", req, &message.ACLWhoAmIResponse{})
		k.mu.Lock()
		if err == nil {
			k.shown++
		}
		if errors.Is(err, apierror.ErrPermissionDenied) && time.Now().Before(h.exp) {
			k.wrong["a good token is refused by "+addr]++
		}
		k.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// faults kills leaders and rotates keys in turns, until end and until enough happened.
func (k *soak) faults(end time.Time) (kills, rotations int) {
	k.t.Helper()
	for time.Now().Before(end) || kills < 2 || rotations < 4 || !k.enough() {
		if time.Since(end) > 2*harness.Patience {
			k.t.Fatalf("that was no soak: %d leaders killed, %d rotations, %d renewals, %d tokens shown", kills, rotations, len(k.renewed), k.shown)
		}
		lead := k.s.Leader(k.s.All[0])
		if lead < 0 {
			continue
		}
		if err := k.s.All[lead].Kill(); err != nil {
			k.t.Fatal(err)
		}
		kills++
		other := k.s.All[(lead+1)%3]
		rotations += k.rotate(other)
		k.rest()
		k.s.All[lead] = harness.Restart(k.t, k.s.All[lead])
		k.rest()
		rotations += k.rotate(k.s.All[lead])
		k.rest()
	}
	return kills, rotations
}

// enough reports whether every token was renewed a few times, and many were verified.
func (k *soak) enough() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown >= 100 && len(k.renewed) >= 4*len(k.allocs)
}

// rotate rotates the key as soon as there is a leader.
func (k *soak) rotate(through *cluster.Agent) int {
	k.within(harness.Patience, "a new key signs", func() bool {
		_, err := harness.Command(k.t, through, "operator", "root", "keyring", "rotate", "-now")
		return err == nil
	})
	return 1
}

// rest waits: the time without faults is part of the test.
func (k *soak) rest() {
	select {
	case <-k.t.Context().Done():
	case <-time.After(k.calm):
	}
}

func (k *soak) within(limit time.Duration, what string, ok func() bool) {
	k.t.Helper()
	harness.Within(k.t, limit, what, ok)
}

// judge compares the observations with the guarantees.
func (k *soak) judge(began time.Time, kills, rotations int) {
	k.t.Helper()
	bucket, lasted := k.ttl/6, time.Since(began)
	perBucket := make([]int, lasted/bucket)
	caughtUp := map[int]bool{} // buckets with renewals that were due before
	for _, at := range k.paused {
		n := int(at.Sub(began) / bucket)
		caughtUp[n], caughtUp[n+1] = true, true
	}
	first := len(k.allocs) // the first tokens are not renewals
	counted, peak := 0, 0
	for _, at := range k.renewed[min(first, len(k.renewed)):] {
		if n := int(at.Sub(began) / bucket); n < len(perBucket) {
			perBucket[n]++
			counted++
			if !caughtUp[n] {
				peak = max(peak, perBucket[n])
			}
		}
	}
	mean := float64(counted) / float64(len(perBucket))
	k.t.Logf("%v, %d allocations, ttl %v: %d leaders killed, %d rotations, %d renewals, %d tokens shown; in %v at "+
		"most %d renewals, %.0f in the mean",
		lasted.Round(time.Second), len(k.allocs), k.ttl, kills, rotations, counted, k.shown, bucket, peak, mean)
	for what, n := range k.wrong {
		k.t.Errorf("%s: %d times", what, n)
	}
	if float64(peak) > 2*mean {
		k.t.Errorf("the peak of renewals is more than twice the mean: %v", perBucket)
	}
}
