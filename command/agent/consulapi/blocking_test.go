package consulapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// blocked sends a blocking query. The result is ready when it is answered.
func blocked(send func() *httptest.ResponseRecorder) <-chan *httptest.ResponseRecorder {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() { out <- send() }()
	return out
}

func TestBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegion()
		s := newServer(r)
		const target = "/v1/health/service/web?passing&wait=1m"
		if got := send(s, "GET", target).Header().Get("X-Consul-Index"); got != "7" {
			t.Fatalf("index = %s", got)
		}
		done := blocked(func() *httptest.ResponseRecorder { return send(s, "GET", target+"&index=7") })
		for range 5 { // changes of other services
			synctest.Wait()
			r.change(func() {})
			time.Sleep(100 * time.Millisecond)
		}
		select {
		case w := <-done:
			t.Fatalf("answered without a change: %s", w.Body)
		case <-time.After(5 * time.Second):
		}
		if calls := r.made(); calls > 5 {
			t.Errorf("%d RPCs for 5 changes within half a second", calls)
		}
		r.change(func() { r.rows[0].NodeStatus = "ready" })
		w := <-done
		if got := brief(t, w.Body.Bytes()); got != "w1 w2" || w.Header().Get("X-Consul-Index") != "13" {
			t.Errorf("%s at index %s", got, w.Header().Get("X-Consul-Index"))
		}
	})
}

func TestBlocking_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newRegion())
		begun := time.Now()
		w := send(s, "GET", "/v1/catalog/services?index=7&wait=16s")
		if took := time.Since(begun); took < 16*time.Second || took > 18*time.Second || w.Code != 200 {
			t.Errorf("%d after %v", w.Code, took)
		}
		begun = time.Now()
		send(s, "GET", "/v1/catalog/services?index=7&wait=90h")
		if took := time.Since(begun); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("the longest wait took %v", took)
		}
	})
}

// Routes of the agent do not wait, as in Consul. Empty lists of the mesh do: their watchers would ask again at once.
func TestBlocking_Routes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newRegion())
		for target, waits := range map[string]bool{
			"/v1/status/leader": false, "/v1/agent/services": false, "/v1/agent/self": false, "/v1/catalog/datacenters": false,
			"/v1/health/connect/web": true, "/v1/coordinate/nodes": true, "/v1/kv/app?recurse": true, "/v1/health/state/any": true,
		} {
			separator := "?"
			if strings.Contains(target, "?") {
				separator = "&"
			}
			index := send(s, "GET", target).Header().Get("X-Consul-Index")
			begun := time.Now()
			w := send(s, "GET", target+separator+"wait=30s&index="+index)
			if took := time.Since(begun); w.Code != 200 || (took >= 30*time.Second) != waits {
				t.Errorf("%s: %d after %v, want a wait: %t", target, w.Code, took, waits)
			}
		}
	})
}

// A node changes without its services: a query of a node notices it.
func TestBlocking_Node(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegion()
		s := newServer(r)
		done := blocked(func() *httptest.ResponseRecorder { return send(s, "GET", "/v1/health/node/beta?index=7&wait=5m") })
		synctest.Wait()
		r.mu.Lock()
		r.nodes[0].Status = "ready"
		r.mu.Unlock()
		r.change(func() {})
		if w := <-done; !strings.Contains(w.Body.String(), `"passing"`) {
			t.Errorf("answer: %s", w.Body)
		}
	})
}

// Callers without a token cannot take all slots.
func TestBlocking_Limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newRegion())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		codes := make(chan int, 400)
		for i := range 300 {
			go func() {
				req := httptest.NewRequestWithContext(ctx, "GET", fmt.Sprintf("/v1/catalog/service/s%d?index=7&wait=10m", i), nil)
				req.Host = "localhost:8500"
				w := httptest.NewRecorder()
				s.ServeHTTP(w, req)
				codes <- w.Code
			}()
		}
		synctest.Wait()
		if refused := len(codes); refused != 300-256 {
			t.Errorf("%d of 300 queries refused", refused)
		}
		if code := <-codes; code != 429 {
			t.Errorf("refused with %d", code)
		}
		done := blocked(func() *httptest.ResponseRecorder {
			return send(s, "GET", "/v1/catalog/services?index=7&wait=10s", "X-Consul-Token", secret)
		})
		if w := <-done; w.Code != 200 {
			t.Errorf("a caller with a token: %d", w.Code)
		}
		cancel()
	})
}

// The order of answers does not depend on the order of the servers.
func TestOrder(t *testing.T) {
	r := newRegion()
	s := newServer(r)
	first := send(s, "GET", "/v1/health/service/web").Body.String()
	r.rows = []*catalog.Instance{r.rows[2], r.rows[0], r.rows[3], r.rows[1]}
	if again := send(s, "GET", "/v1/health/service/web").Body.String(); again != first {
		t.Errorf("another order:\n%s\n%s", first, again)
	}
}

// A blocking query for a list that is always empty needs a right: no RPC checks its token, and it would occupy a slot.
func TestBlocking_InventedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegion()
		r.acl = true
		s := newServer(r)
		for _, path := range []string{"/v1/coordinate/nodes", "/v1/health/connect/web", "/v1/catalog/connect/web"} {
			begun := time.Now()
			if got := send(s, "GET", path+"?index=1&token=invented"); got.Code != 403 || time.Since(begun) > 0 {
				t.Errorf("%s: %d after %s, want 403 at once", path, got.Code, time.Since(begun))
			}
			if got := send(s, "GET", path); got.Code != 200 || strings.TrimSpace(got.Body.String()) != "[]" {
				t.Errorf("%s without index: %d %s", path, got.Code, got.Body)
			}
		}
		open := newServer(newRegion())
		if got := send(open, "GET", "/v1/coordinate/nodes?index=1&wait=1s"); got.Code != 200 {
			t.Errorf("without ACLs: %d %s", got.Code, got.Body)
		}
	})
}
