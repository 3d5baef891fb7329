package access

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// port-forward requires its own right in the namespace of the allocation, through every agent. Other
// rights, such as alloc-exec, do not include it. The allocation has no ports, so a caller with the right
// gets that error.
func TestPortForwardTakesItsRight(t *testing.T) {
	h := open(t)
	_, _ = h.run("service", "worker", "exec sleep 600")
	allocs, _, err := h.api.Jobs().Allocations("worker", false, &api.QueryOptions{Namespace: prod})
	h.must(err)
	id := allocs[0].ID
	unknown := `Unknown allocation "` + id + `" (or your token lacks alloc-port-forward`
	const nowhere = "needs alloc-port-forward in any namespace: Permission denied" // the agent refuses before it asks for the allocation
	allowed := `unknown port "22" of allocation ` + id + ": it has no ports"
	for name, c := range map[string]struct{ rules, want string }{
		"nothing":   {`namespace "mine" { policy = "read" }`, nowhere},
		"elsewhere": {`namespace "mine" { capabilities = ["alloc-port-forward"] }`, unknown},
		"writes":    {`namespace "prod" { policy = "write" }`, nowhere},
		"exec":      {`namespace "prod" { capabilities = ["alloc-exec", "alloc-node-exec", "read-job"] }`, nowhere},
		"the right": {`namespace "prod" { capabilities = ["alloc-port-forward"] }`, allowed},
	} {
		policy := "forward-" + strings.ReplaceAll(name, " ", "-")
		h.policy(policy, c.rules, "")
		token := h.token(&api.ACLToken{Policies: []string{policy}})
		for place, a := range map[string]*cluster.Agent{"server": h.server, "client": h.client} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			conn := struct {
				io.Reader
				io.Writer
			}{strings.NewReader(""), &bytes.Buffer{}}
			err := h.as(a, token).Allocations().PortForward(ctx, &api.Allocation{ID: id}, "22", conn, &api.QueryOptions{Namespace: prod})
			cancel()
			if err == nil || !strings.HasPrefix(err.Error(), c.want[:min(len(c.want), 110)]) {
				t.Errorf("%s at the %s: %v; want %q", name, place, err, c.want)
			}
		}
	}
}
