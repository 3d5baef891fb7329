package sdk_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Job statuses are sorted newest first, in reverse oldest first, also with pages.
func TestSDKStatusesNewestFirst(t *testing.T) {
	c := harness.SDKClient(t, harness.DevAgent(t), "")
	ids := []string{"a", "c", "b"}
	for _, id := range ids { // no node has the class, so that nothing changes them later
		if _, _, err := c.Jobs().Register(jobCalled(id).Constrain(sdk.NewConstraint("${node.class}", "=", "none")), nil); err != nil {
			t.Fatal(err)
		}
		harness.Within(t, harness.Patience, "job "+id+" is evaluated", func() bool {
			evals, _, err := c.Jobs().Evaluations(id, nil)
			return err == nil && len(evals) == 2 // one waits for nodes
		})
	}
	type status struct{ ID string }
	for query, want := range map[string]string{"": "b c a", "?reverse=true": "a c b", "?per_page=2": "b c"} {
		var got []status
		if _, err := c.Raw().Query("/v1/jobs/statuses"+query, &got, nil); err != nil {
			t.Fatal(err)
		}
		if order := order(got, func(s status) string { return s.ID }); order != want {
			t.Errorf("statuses%s = %s, want %s", query, order, want)
		}
	}
	var first, second []status
	meta, err := c.Raw().Query("/v1/jobs/statuses", &first, &sdk.QueryOptions{PerPage: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Raw().Query("/v1/jobs/statuses", &second, &sdk.QueryOptions{PerPage: 2, NextToken: meta.NextToken}); err != nil ||
		len(second) != 1 || second[0].ID != "a" {
		t.Errorf("the second page is %v, %v", second, err)
	}
}

func order[T any](list []T, id func(T) string) string {
	var out []string
	for _, v := range list {
		out = append(out, id(v))
	}
	return strings.Join(out, " ")
}

// Features of Nomad Enterprise are rejected as such, where the SDK expects it.
func TestSDKEnterpriseRoutes(t *testing.T) {
	a := harness.DevAgent(t)
	c := harness.SDKClient(t, a, "")
	_, _, err := c.Operator().LicenseGet(nil)
	equals(t, "LicenseGet()", err, "Nomad Enterprise only endpoint")
	for name, call := range map[string]func() error{
		"SentinelPolicies.List":   func() error { _, _, err := c.SentinelPolicies().List(nil); return err },
		"SentinelPolicies.Info":   func() error { _, _, err := c.SentinelPolicies().Info("x", nil); return err },
		"SentinelPolicies.Delete": func() error { _, err := c.SentinelPolicies().Delete("x", nil); return err },
		"SentinelPolicies.Upsert": func() error { _, err := c.SentinelPolicies().Upsert(&sdk.SentinelPolicy{Name: "x"}, nil); return err },
		"Recommendations.List":    func() error { _, _, err := c.Recommendations().List(nil); return err },
		"Recommendations.Info":    func() error { _, _, err := c.Recommendations().Info("x", nil); return err },
		"Recommendations.Upsert":  func() error { _, _, err := c.Recommendations().Upsert(&sdk.Recommendation{}, nil); return err },
		"Recommendations.Apply":   func() error { _, _, err := c.Recommendations().Apply([]string{"x"}, false); return err },
		"Recommendations.Delete":  func() error { _, err := c.Recommendations().Delete([]string{"x"}, nil); return err },
	} {
		harness.WantError(t, name, call(), "501", "Nomad Enterprise only endpoint")
	}
	if resp, body := harness.Request(t, http.MethodPut, a.Address()+"/v1/operator/license", "",
		nil); resp.StatusCode != http.StatusNotImplemented || body != "Nomad Enterprise only endpoint" {
		t.Errorf("PUT of a license: %d %q", resp.StatusCode, body)
	}
}

// The lists of a node pool accept no prefix, which would filter other objects.
func TestNodePoolListsRefusePrefixes(t *testing.T) {
	a := harness.DevAgent(t)
	for _, list := range []string{"nodes", "jobs"} {
		if resp, body := harness.Get(t, a, "/v1/node/pool/default/"+list+"?prefix=a"); resp.StatusCode != http.StatusBadRequest ||
			!strings.Contains(body, "prefix") {
			t.Errorf("%s with a prefix: %d %q, want 400", list, resp.StatusCode, body)
		}
		if resp, _ := harness.Get(t, a, "/v1/node/pool/default/"+list); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", list, resp.StatusCode)
		}
	}
}
