package sdk_test

import (
	"encoding/base64"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The official SDK creates, reads and deletes quotas, and reads the usage of a job.
func TestSDKQuotas(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	n := func(i int) *int { return &i }
	spec := &sdk.QuotaSpec{Name: "small", Description: "d", Limits: []*sdk.QuotaLimit{{Region: "global",
		RegionLimit: &sdk.QuotaResources{CPU: n(100), MemoryMB: n(50), Storage: &sdk.QuotaStorageResources{VariablesMB: 1}}}}}
	if _, err := c.Quotas().Register(spec, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Namespaces().Register(&sdk.Namespace{Name: "team", Quota: "small",
		Capabilities:          &sdk.NamespaceCapabilities{EnabledTaskDrivers: []string{"mock_driver"}},
		NodePoolConfiguration: &sdk.NamespaceNodePoolConfiguration{Allowed: []string{}}}, nil); err != nil {
		t.Fatal(err)
	}
	if ns, _, err := c.Namespaces().Info("team", nil); err != nil || ns.Quota != "small" || ns.NodePoolConfiguration.Allowed == nil {
		t.Errorf("the namespace is %+v, %v", ns, err)
	}
	for list, err := range map[string]error{
		"quotas": one(c.Quotas().List(nil))(func(q *sdk.QuotaSpec) bool { return q.Name == "small" }),
		"prefix": one(c.Quotas().PrefixList("sm", nil))(func(q *sdk.QuotaSpec) bool { return q.Description == "d" }),
		"usages": one(c.Quotas().ListUsage(nil))(func(u *sdk.QuotaUsage) bool { return u.Name == "small" && len(u.Used) == 1 }),
		"by":     one(c.Quotas().PrefixListUsage("small", nil))(func(u *sdk.QuotaUsage) bool { return u.Name == "small" }),
	} {
		if err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
	j, err := c.Jobs().ParseHCL(harness.Job("web", "namespace = \"team\"", "count = 6\n"+harness.SmallTask), true)
	if err != nil {
		t.Fatal(err)
	}
	reg, _, err := c.Jobs().Register(j, nil)
	if err != nil {
		t.Fatal(err)
	}
	quotaIsFull(t, c, reg.EvalID)
	if _, err := c.Quotas().Delete("small", nil); err == nil || !strings.Contains(err.Error(), `is used by namespace "team"`) {
		t.Errorf("a quota in use is deleted: %v", err)
	}
	if _, err := c.Namespaces().Register(&sdk.Namespace{Name: "team"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Quotas().Delete("small", nil); err != nil {
		t.Error(err)
	}
	if _, _, err := c.Quotas().Info("small", nil); err == nil || !strings.Contains(err.Error(), "quota not found") {
		t.Errorf("a deleted quota is there: %v", err)
	}
	harness.Within(t, harness.Patience, "the sixth allocation, once there is no quota", func() bool {
		allocs, _, err := c.Jobs().Allocations("web", false, &sdk.QueryOptions{Namespace: "team"})
		return err == nil && len(allocs) == 6
	})
}

// quotaIsFull waits until a job of six has five allocations of 10 MiB.
func quotaIsFull(t *testing.T, c *sdk.Client, evalID string) {
	t.Helper()
	var eval *sdk.Evaluation
	harness.Within(t, harness.Patience, "an evaluation that is complete", func() bool {
		var err error
		eval, _, err = c.Evaluations().Info(evalID, &sdk.QueryOptions{Namespace: "team"})
		return err == nil && eval.Status == "complete"
	})
	m := eval.FailedTGAllocs["g"]
	if eval.QuotaLimitReached != "small" || m == nil || strings.Join(m.QuotaExhausted, " ") != "memory exhausted (60 needed > 50 limit)" {
		t.Errorf("the evaluation is %+v, with %+v", eval, m)
	}
	q, _, err := c.Quotas().Info("small", nil)
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := c.Quotas().Usage("small", nil)
	if err != nil {
		t.Fatal(err)
	}
	used := u.Used[base64.StdEncoding.EncodeToString(q.Limits[0].Hash)]
	if used == nil || *used.RegionLimit.MemoryMB != 50 || *used.RegionLimit.CPU != 50 {
		t.Errorf("used are %+v of %+v", u.Used, q.Limits[0])
	}
}
