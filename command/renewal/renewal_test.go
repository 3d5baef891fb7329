package renewal_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/renewal"
	"github.com/open-nomad/open-nomad/command/term"
)

// agent serves renewals. Nodes whose ID begins with "lost" are unreachable.
type agent struct {
	mu    sync.Mutex
	asked []time.Time
	now   int // pending requests
	most  int
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, time.Now())
	a.now++
	a.most = max(a.most, a.now)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.now--
		a.mu.Unlock()
	}()
	if strings.HasPrefix(r.URL.Query().Get("node_id"), "lost") {
		http.Error(w, "No path to node", http.StatusNotFound)
		return
	}
	fmt.Fprint(w, "{}")
}

// run renews the nodes with flags and returns the output.
func run(t *testing.T, a *agent, ctx context.Context, nodes []*api.NodeListStub, args ...string) (string, error) {
	t.Helper()
	s := httptest.NewServer(a)
	defer s.Close()
	c, err := api.NewClient(&api.Config{Address: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := &term.Flags{FlagSet: flag.NewFlagSet("", flag.ContinueOnError)}
	var r renewal.Flags
	r.Declare(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = r.Run(ctx, &term.Env{Out: &out, Err: &out}, c, nodes)
	return out.String(), err
}

func fleet(n int) []*api.NodeListStub {
	var out []*api.NodeListStub
	for i := range n {
		out = append(out, &api.NodeListStub{ID: fmt.Sprintf("node-%03d", i), Name: "n", Status: api.NodeStatusReady})
	}
	return out
}

func TestSpreadsOverTime(t *testing.T) {
	var took time.Duration
	for range 5 { // a delayed run catches up
		a := &agent{}
		out, err := run(t, a, t.Context(), fleet(20), "-over=400ms")
		if err != nil || !strings.Contains(out, "20 of 20 nodes done, 0 failed") {
			t.Fatalf("%v\n%s", err, out)
		}
		first, last := a.asked[0], a.asked[len(a.asked)-1]
		if took = last.Sub(first); took >= 300*time.Millisecond {
			return
		}
	}
	t.Errorf("20 nodes were asked within %v, want 0.4 s", took)
}

func TestBoundsThoseAtOnce(t *testing.T) {
	a := &agent{}
	if out, err := run(t, a, t.Context(), fleet(200), "-over=0s"); err != nil || len(a.asked) != 200 || a.most > renewal.MaxPending {
		t.Errorf("%v: %d asked, %d at once\n%s", err, len(a.asked), a.most, out)
	}
}

func TestListsThoseThatWereNotReached(t *testing.T) {
	nodes := append(fleet(3), &api.NodeListStub{ID: "lost-1", Status: api.NodeStatusReady},
		&api.NodeListStub{ID: "off", Status: api.NodeStatusDown})
	a := &agent{}
	out, err := run(t, a, t.Context(), nodes, "-over=0s")
	if err == nil || err.Error() != "2 nodes could not be reached" || len(a.asked) != 4 {
		t.Errorf("error is %v after %d were asked", err, len(a.asked))
	}
	for _, text := range []string{"5 of 5 nodes done, 2 failed", "lost-1", "No path to node", "off", "the node is down"} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is missing in\n%s", text, out)
		}
	}
}

func TestEndsWhenItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	a := &agent{}
	if out, err := run(t, a, ctx, fleet(100), "-over=1h"); err == nil || !strings.Contains(err.Error(), "stopped before") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDefaultTime(t *testing.T) {
	var r renewal.Flags
	if d, err := r.Over(500); d != 10*time.Second || err != nil {
		t.Errorf("500 nodes are asked over %v, %v", d, err)
	}
	for _, bad := range []string{"-over=-1s", "-over=soon"} {
		if _, err := run(t, &agent{}, t.Context(), fleet(1), bad); err == nil || !strings.Contains(err.Error(), "expected a duration") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
