package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// fleet is a set of servers; each answers as set in fails.
type fleet struct {
	mu     sync.Mutex
	fails  map[string]error
	called []string // addresses, in the order of the calls
	pings  int
}

func (f *fleet) Call(_ context.Context, addr, method string, _, _ any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if method == "Status.Ping" {
		f.pings++
	} else {
		f.called = append(f.called, addr)
	}
	return f.fails[addr]
}

func (f *fleet) Stream(_ context.Context, addr, _ string) (*rpc.Stream, error) {
	if err := f.Call(context.Background(), addr, "", nil, nil); err != nil {
		return nil, err
	}
	stream, _ := rpc.Pipe()
	return stream, nil
}

func (f *fleet) set(addr string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails[addr] = err
}

func remote(f *fleet, addrs ...string) *Remote {
	return New(f, "global", addrs, slog.New(slog.DiscardHandler))
}

var (
	readReq    = &message.GenericRequest{}
	writeReq   = &message.NodeUpdateStatusRequest{}
	errLost    = fmt.Errorf("rpc error: %w", io.EOF)
	errGone    = fmt.Errorf("%w: %w", apierror.ErrLost, io.EOF)
	errMaybe   = fmt.Errorf("%w: %w", apierror.ErrMaybeApplied, io.EOF)
	errRefused = fmt.Errorf("%w: connection refused", apierror.ErrUnsent)
)

func TestCall_Failover(t *testing.T) {
	for name, c := range map[string]struct {
		req    any
		first  error
		called []string // in order
		next   string   // the head afterwards
		want   error
	}{
		"unreachable server":          {writeReq, errRefused, []string{"a", "b"}, "b", nil},
		"unreachable leader":          {writeReq, apierror.FromText(errRefused.Error()), []string{"a", "b"}, "b", nil},
		"no leader":                   {writeReq, apierror.ErrNoLeader, []string{"a", "b"}, "b", nil},
		"lost response to a read":     {readReq, errLost, []string{"a", "b"}, "b", nil},
		"read lost by another server": {readReq, apierror.FromText(errGone.Error()), []string{"a", "b"}, "b", nil},
		"write lost by another server": {writeReq, apierror.FromText(fmt.Sprint(apierror.ErrMaybeApplied, ": ", errGone)), []string{"a"},
			"a", apierror.ErrMaybeApplied},
		"lost response to a restart": {&message.AllocRestartRequest{}, errMaybe, []string{"a"}, "b", apierror.ErrMaybeApplied},
		"lost response to a write":   {writeReq, errMaybe, []string{"a"}, "b", apierror.ErrMaybeApplied},
		"write lost by the leader": {writeReq, apierror.FromText(apierror.ErrMaybeApplied.Error()), []string{"a"}, "a",
			apierror.ErrMaybeApplied},
		"refused": {writeReq, apierror.ErrPermissionDenied, []string{"a"}, "a", apierror.ErrPermissionDenied},
		"user text that looks like an error": {writeReq, apierror.FromText(`RPC Error:: 400,job "rpc error: failed to get conn" is bad`),
			[]string{"a"}, "a", nil},
		"wrong node secret": {writeReq,
			apierror.FromText("RPC Error:: 403,node secret ID does not match. Not registering node."), []string{"a"}, "a", apierror.ErrNodeSecret},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{fails: map[string]error{"a": c.first}}
				r := remote(f, "a", "b")
				begun := time.Now()
				err := r.Call(t.Context(), "Test.Call", c.req, nil)
				if c.want != nil && !errors.Is(err, c.want) || c.want == nil && len(c.called) == 2 && err != nil {
					t.Errorf("Call() = %v, want %v", err, c.want)
				}
				if !slices.Equal(f.called, c.called) || r.Addrs()[0] != c.next {
					t.Errorf("called %v, want %v; the head is %s, want %s", f.called, c.called, r.Addrs()[0], c.next)
				}
				if took := time.Since(begun); took > 0 {
					t.Errorf("the failover took %v", took)
				}
			})
		})
	}
}

func TestCall_NoServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{fails: map[string]error{"a": errRefused, "b": errRefused}}
		r := remote(f, "a", "b")
		begun := time.Now()
		err := r.Call(t.Context(), "Test.Call", writeReq, nil)
		var unreachable *Unreachable
		if !errors.As(err, &unreachable) || !slices.Equal(unreachable.Addrs, []string{"a", "b"}) {
			t.Errorf("Call() = %v", err)
		}
		if took := time.Since(begun); took < holdTimeout || took > holdTimeout+time.Second {
			t.Errorf("it was retried for %v", took)
		}
		if len(f.called) > 60 {
			t.Errorf("%d tries", len(f.called))
		}
	})
}

// The error names a failed TLS handshake as the reason.
func TestCall_TLSFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := fmt.Errorf("%w: %w", apierror.ErrUnsent, &rpc.HandshakeError{Addr: "a", Region: "global", Err: errors.New("unknown authority")})
		r := remote(&fleet{fails: map[string]error{"a": why}}, "a")
		err := r.Call(t.Context(), "Test.Call", writeReq, nil)
		if want := `at a (TLS with the server of region "global" at a: unknown authority)`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Call() = %v, want %s", err, want)
		}
	})
}

func TestStream_Failover(t *testing.T) {
	f := &fleet{fails: map[string]error{"a": errRefused, "b": errLost}}
	r := remote(f, "a", "b", "c")
	s, err := r.Stream(t.Context(), "Test.Stream")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if !slices.Equal(f.called, []string{"a", "b", "c"}) || r.Addrs()[0] != "c" {
		t.Errorf("called %v, then %v", f.called, r.Addrs())
	}
}

func TestLearn(t *testing.T) {
	infos := func(addrs ...string) (out []*nomad.NodeServerInfo) {
		for _, a := range addrs {
			out = append(out, &nomad.NodeServerInfo{RPCAdvertiseAddr: a})
		}
		return out
	}
	set := func(r *Remote) []string { return slices.Sorted(slices.Values(r.Addrs())) }
	leaders := map[string]bool{}
	for range 200 { // a different order for each client
		r := remote(&fleet{}, "seed")
		r.Learn(infos("a", "b", "c", "b", ""), 3)
		leaders[r.Addrs()[0]] = true
		if got := set(r); !slices.Equal(got, []string{"a", "b", "c", "seed"}) {
			t.Fatalf("servers = %v", got)
		}
	}
	if len(leaders) != 4 {
		t.Errorf("all of 200 clients start with one of %v", leaders)
	}
	r := remote(&fleet{}, "seed")
	r.Learn(infos("a", "b"), 3)
	r.failed(r.Addrs()[0])
	order := r.Addrs()
	r.Learn(infos("b", "a"), 3)
	r.Learn(nil, 3)
	if got := r.Addrs(); !slices.Equal(got, order) {
		t.Errorf("the same servers in another order: %v, was %v", got, order)
	}
	r.Replace([]string{"x"})
	if got := r.Addrs(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("replaced by %v", got)
	}
	r.Learn(infos("y"), 3)
	if got := set(r); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("servers of the new ones: %v", got)
	}
}

func TestRun_Rebalances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{fails: map[string]error{}}
		r := remote(f, "a", "b", "c")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		after := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		after(rebalanceMin - time.Second)
		if f.pings != 0 {
			t.Error("moved before the minimum interval")
		}
		leaders := map[string]bool{}
		f.set("b", errRefused)
		for range 100 {
			after(2 * rebalanceMin)
			leaders[r.Addrs()[0]] = true
			if len(r.Addrs()) != 3 {
				t.Fatalf("servers are lost: %v", r.Addrs())
			}
		}
		if !leaders["a"] || !leaders["c"] || leaders["b"] {
			t.Errorf("moved to %v", leaders)
		}
		order := r.Addrs()
		f.set("a", errRefused)
		f.set("c", errRefused)
		after(10 * rebalanceMin)
		if got := r.Addrs(); !slices.Equal(got, order) {
			t.Errorf("without a reachable server the order changed to %v", got)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	})
}

// The interval grows with the number of clients per server.
func TestRebalanceAfter(t *testing.T) {
	for _, c := range []struct {
		nodes int
		want  time.Duration
	}{{10, rebalanceMin}, {1_000_000, 1_000_000 / (64 * 2) * time.Second}} {
		r := remote(&fleet{}, "a", "b")
		r.Learn([]*nomad.NodeServerInfo{{RPCAdvertiseAddr: "a"}}, c.nodes)
		if got := r.rebalanceAfter(); got < c.want || got > c.want+c.want/2+time.Second {
			t.Errorf("%d nodes: %v, want from %v", c.nodes, got, c.want)
		}
	}
}

// Found servers replace those that did not answer. The configured ones stay.
func TestFound(t *testing.T) {
	r := remote(&fleet{}, "seed:1")
	r.Learn([]*nomad.NodeServerInfo{{RPCAdvertiseAddr: "old:1"}}, 1)
	r.Found([]string{"new:1", "seed:1"})
	if got := slices.Sorted(slices.Values(r.Addrs())); !slices.Equal(got, []string{"new:1", "seed:1"}) {
		t.Errorf("servers = %q", got)
	}
	r.Found([]string{"newer:1"})
	if got := slices.Sorted(slices.Values(r.Addrs())); !slices.Equal(got, []string{"newer:1", "seed:1"}) {
		t.Errorf("servers = %q", got)
	}
}
