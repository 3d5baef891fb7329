package sdk_test

import (
	"net/http"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A caller without any right is rejected on routes over all objects, and finds nothing in a search
// of all contexts. With the right, both work.
func TestSDKAnonymousReads(t *testing.T) {
	g := harness.NewACLClient(t)
	if _, _, err := g.Jobs().Register(jobCalled("web"), nil); err != nil {
		t.Fatal(err)
	}
	anonymous := harness.SDKClient(t, g.Agent, "")
	empty, _ := g.As(t, "none-such")
	g.CreatePolicy(t, "everything", `namespace "default" { policy = "read" }
		namespace "other" { variables { path "*" { capabilities = ["list"] } } }
		node { policy = "read" }
		quota { policy = "read" }
		plugin { policy = "list" }
		node_pool "*" { policy = "read" }`, nil)
	reader, _ := g.As(t, "everything")
	for _, c := range []*sdk.Client{anonymous, empty} {
		for _, path := range []string{"/v1/jobs/statuses", "/v1/jobs/statuses?namespace=*", "/v1/jobs/statuses?namespace=default"} {
			_, err := c.Raw().Query(path, new([]any), nil)
			harness.WantError(t, path, err, "403", "Permission denied")
		}
	}
	var jobs []struct{ ID string }
	if _, err := reader.Raw().Query("/v1/jobs/statuses", &jobs, nil); err != nil || len(jobs) != 1 {
		t.Errorf("statuses of a reader = %v, %v", jobs, err)
	}
	for _, context := range []string{"jobs", "allocs", "evals", "deployment", "nodes", "node_pools", "namespaces", "vars", "quotas",
		"volumes", "host_volumes", "plugins", "scaling_policy"} {
		for _, namespace := range []string{"default", "*"} {
			q := &sdk.QueryOptions{Namespace: namespace}
			for _, c := range []*sdk.Client{anonymous, empty} {
				err := inContext(c.Search().PrefixSearch, context, q)
				harness.WantError(t, "search for "+context+" in "+namespace, err, "403", "Permission denied")
				err = inContext(c.Search().FuzzySearch, context, q)
				harness.WantError(t, "fuzzy search for "+context+" in "+namespace, err, "403", "Permission denied")
			}
			if context == "vars" && namespace == "default" {
				continue // the reader's variables are in the namespace other
			}
			if err := inContext(reader.Search().PrefixSearch, context, q); err != nil {
				t.Errorf("search for %s in %s by a reader: %v", context, namespace, err)
			}
			if err := inContext(reader.Search().FuzzySearch, context, q); err != nil {
				t.Errorf("fuzzy search for %s in %s by a reader: %v", context, namespace, err)
			}
		}
	}
	for _, namespace := range []string{"default", "*"} {
		q := &sdk.QueryOptions{Namespace: namespace}
		for name, c := range map[string]*sdk.Client{"nobody": anonymous, "reader": reader} {
			if _, _, err := c.Search().PrefixSearch("none-such", "all", q); err != nil {
				t.Errorf("search for what does not exist in %s by %s: %v", namespace, name, err)
			}
			if _, _, err := c.Search().FuzzySearch("none-such", "all", q); err != nil {
				t.Errorf("fuzzy search for what does not exist in %s by %s: %v", namespace, name, err)
			}
		}
		found, _, err := anonymous.Search().PrefixSearch("", "all", q)
		if err != nil {
			t.Fatal(err)
		}
		for context, ids := range found.Matches {
			if len(ids) > 0 {
				t.Errorf("the anonymous caller finds %s %v", context, ids)
			}
		}
		fuzzy, _, err := anonymous.Search().FuzzySearch("web", "all", q)
		if err != nil {
			t.Fatal(err)
		}
		for context, ids := range fuzzy.Matches {
			if len(ids) > 0 {
				t.Errorf("the anonymous caller finds %s %v", context, ids)
			}
		}
	}
}

// inContext searches for a job in the named context.
func inContext[C ~string, R any](search func(string, C, *sdk.QueryOptions) (R, *sdk.QueryMeta, error), context string,
	q *sdk.QueryOptions) error {
	_, _, err := search("web", C(context), q)
	return err
}

// Without a token a caller has no own policy, even if the anonymous policy exists.
func TestSDKOwnPoliciesWithoutToken(t *testing.T) {
	g := harness.NewACLClient(t)
	anonymous := harness.SDKClient(t, g.Agent, "")
	for _, exists := range []bool{false, true} {
		if exists {
			g.CreatePolicy(t, "anonymous", `namespace "default" { policy = "read" }`, nil)
			if _, _, err := anonymous.Jobs().List(nil); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := anonymous.ACLPolicies().Self(nil)
		harness.WantError(t, "Self() without a token", err, "403", "Permission denied")
	}
	own, _ := g.As(t, "anonymous")
	if list, _, err := own.ACLPolicies().Self(nil); err != nil || len(list) != 1 {
		t.Errorf("Self() = %v, %v", list, err)
	}
	off := harness.DevAgent(t)
	if resp, body := harness.Get(t, off, "/v1/acl/policy/self"); resp.StatusCode != http.StatusBadRequest || body != "ACL support disabled" {
		t.Errorf("without access control: %d %q", resp.StatusCode, body)
	}
}
