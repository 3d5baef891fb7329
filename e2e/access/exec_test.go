package access

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/httpclient"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// as returns an API client of an agent with a token.
func (h *house) as(a *cluster.Agent, token string) *httpclient.Client {
	h.t.Helper()
	c, err := httpclient.NewClient(&httpclient.Config{Address: a.Address(), SecretID: token, TLSConfig: &httpclient.TLSConfig{CACert: h.userFiles.CA, ClientCert: h.userFiles.Cert, ClientKey: h.userFiles.Key}})
	h.must(err)
	return c
}

// begun reports the first write of a program.
type begun struct {
	once sync.Once
	ch   chan struct{}
}

func (b *begun) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.ch) })
	return len(p), nil
}

// alloc exec requires its rights in the namespace of the task, through every agent.
func TestExecTakesItsRights(t *testing.T) {
	h := open(t)
	_, _ = h.run("service", "worker", "exec sleep 600")
	allocs, _, err := h.api.Jobs().Allocations("worker", false, &httpclient.QueryOptions{Namespace: prod})
	h.must(err)
	unknown := `Unknown allocation "` + allocs[0].ID + `" (or your token lacks alloc-exec in its namespace)`
	for name, c := range map[string]struct{ rules, want string }{
		"nothing":       {`namespace "mine" { policy = "read" }`, unknown},
		"elsewhere":     {`namespace "mine" { capabilities = ["alloc-exec", "alloc-node-exec"] }`, unknown},
		"reads":         {`namespace "prod" { policy = "read" }`, unknown},
		"writes":        {`namespace "prod" { policy = "write" }`, `needs alloc-node-exec in namespace "prod": Permission denied`},
		"only exec":     {`namespace "prod" { capabilities = ["alloc-exec"] }`, `needs alloc-node-exec in namespace "prod": Permission denied`},
		"only the node": {`namespace "prod" { capabilities = ["alloc-node-exec"] }`, unknown},
		"both":          {`namespace "prod" { capabilities = ["alloc-exec", "alloc-node-exec"] }`, ""},
	} {
		policy := "exec-" + strings.ReplaceAll(name, " ", "-")
		h.policy(policy, c.rules, "")
		token := h.token(&api.ACLToken{Policies: []string{policy}})
		for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			code, err := h.as(a, token).Allocations().Exec(ctx, &api.Allocation{ID: allocs[0].ID}, "t", false, []string{"sh", "-c", "echo done; exit 3"}, nil, &out, io.Discard, nil, &httpclient.QueryOptions{Namespace: prod})
			cancel()
			if c.want == "" && (err != nil || code != 3 || out.String() != "done\n") || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want[:min(len(c.want), 117)])) {
				t.Errorf("%s at the %s: %d, %q, %v; want %q", name, place, code, &out, err, c.want)
			}
		}
	}
}

// A session ends soon after its token is deleted.
func TestExecEndsWithTheToken(t *testing.T) {
	h := open(t)
	_, _ = h.run("service", "worker", "exec sleep 600")
	allocs, _, err := h.api.Jobs().Allocations("worker", false, &httpclient.QueryOptions{Namespace: prod})
	h.must(err)
	h.policy("exec", `namespace "prod" { capabilities = ["alloc-exec", "alloc-node-exec"] }`, "")
	for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
		t.Run(place, func(t *testing.T) {
			token, _, err := h.api.ACLTokens().Create(&api.ACLToken{Type: "client", Policies: []string{"exec"}}, nil)
			h.must(err)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			in, typed := io.Pipe() // no input
			defer typed.Close()
			out := &begun{ch: make(chan struct{})}
			ended := make(chan error, 1)
			go func() {
				_, err := h.as(a, token.SecretID).Allocations().Exec(ctx, &api.Allocation{ID: allocs[0].ID}, "t", false, []string{"sh", "-c", "echo; exec sleep 600"}, in, out, io.Discard, nil, &httpclient.QueryOptions{Namespace: prod})
				ended <- err
			}()
			select {
			case <-out.ch:
			case err := <-ended:
				t.Fatal(err)
			}
			if _, err := h.api.ACLTokens().Delete(token.AccessorID, nil); err != nil {
				t.Fatal(err)
			}
			gone := time.Now()
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "session ended before the command") {
				t.Errorf("the session ended with %v", err)
			}
			if took := time.Since(gone); took > time.Minute { // tokens are cached for a second, and the machine is busy
				t.Errorf("the session ended %v after its token", took)
			}
		})
	}
}
