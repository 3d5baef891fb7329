package sdk_test

import (
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The index of a list is 0 while its table was never written; for variables it is 1. An existing
// object has an index above 0.
func TestSDKIndexes(t *testing.T) {
	g := harness.NewACLClient(t)
	list := func(path string) uint64 {
		t.Helper()
		var out []any
		meta, err := g.Raw().Query(path, &out, nil)
		if err != nil {
			t.Errorf("GET %s = %v", path, err)
			return 0
		}
		return meta.LastIndex
	}
	for path, want := range map[string]uint64{
		"/v1/jobs": 0, "/v1/job/none/allocations": 0, "/v1/job/none/evaluations": 0, "/v1/job/none/deployments": 0,
		"/v1/allocations": 0, "/v1/evaluations": 0, "/v1/deployments": 0, "/v1/jobs/statuses": 0,
		"/v1/acl/policies": 1, "/v1/acl/roles": 1, "/v1/acl/auth-methods": 1, "/v1/acl/binding-rules": 1,
		"/v1/vars": 1,
	} {
		if got := list(path); got != want {
			t.Errorf("index of GET %s = %d, want %d", path, got, want)
		}
	}
	for _, path := range []string{"/v1/acl/tokens", "/v1/namespaces", "/v1/node/pools", "/v1/operator/keyring/keys"} {
		if list(path) == 0 {
			t.Errorf("index of GET %s, which has entries, is 0", path)
		}
	}
	for _, path := range []string{"/v1/acl/token/self", "/v1/namespace/default", "/v1/node/pool/default",
		"/v1/operator/scheduler/configuration"} {
		var out any
		if meta, err := g.Raw().Query(path, &out, nil); err != nil || meta.LastIndex == 0 {
			t.Errorf("GET %s = %+v, %v, want an index", path, meta, err)
		}
	}
	if _, _, err := g.Jobs().List(&sdk.QueryOptions{WaitIndex: 1, WaitTime: 20 * time.Millisecond}); err != nil {
		t.Errorf("a list that was never written, waited for: %v", err)
	}
}
