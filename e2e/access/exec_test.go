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
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// as returns an API client of an agent with a token.
func (h *house) as(a *cluster.Agent, token string) *api.Client {
	h.t.Helper()
	c, err := api.NewClient(&api.Config{
		Address:   a.Address(),
		SecretID:  token,
		TLSConfig: &api.TLSConfig{CACert: h.userFiles.CA, ClientCert: h.userFiles.Cert, ClientKey: h.userFiles.Key},
	})
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
	allocs, _, err := h.api.Jobs().Allocations("worker", false, &api.QueryOptions{Namespace: prod})
	h.must(err)
	unknown := `Unknown allocation "` + allocs[0].ID + `" (or your token lacks alloc-exec in its namespace)`
	const nowhere = "needs alloc-exec in any namespace: Permission denied" // the agent refuses before it asks for the allocation
	for name, c := range map[string]struct{ rules, want string }{
		"nothing":       {`namespace "mine" { policy = "read" }`, nowhere},
		"elsewhere":     {`namespace "mine" { capabilities = ["alloc-exec", "alloc-node-exec"] }`, unknown},
		"reads":         {`namespace "prod" { policy = "read" }`, nowhere},
		"writes":        {`namespace "prod" { policy = "write" }`, `needs alloc-node-exec in namespace "prod": Permission denied`},
		"only exec":     {`namespace "prod" { capabilities = ["alloc-exec"] }`, `needs alloc-node-exec in namespace "prod": Permission denied`},
		"only the node": {`namespace "prod" { capabilities = ["alloc-node-exec"] }`, nowhere},
		"both":          {`namespace "prod" { capabilities = ["alloc-exec", "alloc-node-exec"] }`, ""},
	} {
		policy := "exec-" + strings.ReplaceAll(name, " ", "-")
		h.policy(policy, c.rules, "")
		token := h.token(&api.ACLToken{Policies: []string{policy}})
		for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			code, err := h.as(a, token).Allocations().Exec(ctx, &api.Allocation{ID: allocs[0].ID}, "t", false,
				[]string{"sh", "-c", "echo done; exit 3"}, nil, &out, io.Discard, nil, &api.QueryOptions{Namespace: prod})
			cancel()
			if c.want == "" && (err != nil || code != 3 || out.String() != "done\n") ||
				c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want[:min(len(c.want), 117)])) {
				t.Errorf("%s at the %s: %d, %q, %v; want %q", name, place, code, &out, err, c.want)
			}
		}
	}
}
