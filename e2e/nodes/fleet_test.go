package nodes_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// keysOf returns the set of public keys.
func keysOf(t *testing.T, a *cluster.Agent) string {
	t.Helper()
	text := ""
	harness.Within(t, harness.Patience, "the keys of "+a.Address(), func() bool {
		_, text = harness.Get(t, a, "/.well-known/jwks.json")
		return strings.Contains(text, "kid")
	})
	return text
}
