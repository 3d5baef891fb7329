package sdk_test

import (
	"slices"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The searches of the official SDK find a job, its parts and its node.
func TestSDKSearches(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer harness.PurgeAll(t, a)
	harness.Run(t, a, `job "needle" {
  type = "batch"
  group "haystack" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}`)
	got, _, err := c.Search().PrefixSearch("need", "jobs", nil)
	if err != nil || !slices.Equal(got.Matches["jobs"], []string{"needle"}) {
		t.Errorf("PrefixSearch() = %+v, %v", got, err)
	}
	all, _, err := c.Search().PrefixSearch("", "all", nil)
	if err != nil || len(all.Matches["nodes"]) != 1 || len(all.Matches["namespaces"]) != 1 {
		t.Errorf("PrefixSearch(all) = %+v, %v", all, err)
	}
	fuzzy, _, err := c.Search().FuzzySearch("STACK", "all", nil)
	if m := fuzzy.Matches["groups"]; err != nil || len(m) != 1 || m[0].ID != "haystack" ||
		!slices.Equal(m[0].Scope, []string{"default", "needle"}) {
		t.Errorf("FuzzySearch() = %+v, %v", fuzzy, err)
	}
	if _, _, err := c.Search().FuzzySearch("x", "all", nil); err == nil {
		t.Error("FuzzySearch() took one character")
	}
}
