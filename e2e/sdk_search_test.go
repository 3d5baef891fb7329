package e2e

import (
	"slices"
	"testing"

	sdk "github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

// The searches of an SDK that we did not write find a job, its parts and its node.
func TestSDKSearches(t *testing.T) {
	a := devAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer purgeAll(t, a)
	run(t, a, `job "needle" {
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
	got, _, err := c.Search().PrefixSearch("need", contexts.Jobs, nil)
	if err != nil || !slices.Equal(got.Matches[contexts.Jobs], []string{"needle"}) {
		t.Errorf("PrefixSearch() = %+v, %v", got, err)
	}
	all, _, err := c.Search().PrefixSearch("", contexts.All, nil)
	if err != nil || len(all.Matches[contexts.Nodes]) != 1 || len(all.Matches[contexts.Namespaces]) != 1 {
		t.Errorf("PrefixSearch(all) = %+v, %v", all, err)
	}
	fuzzy, _, err := c.Search().FuzzySearch("STACK", contexts.All, nil)
	if m := fuzzy.Matches[contexts.Groups]; err != nil || len(m) != 1 || m[0].ID != "haystack" || !slices.Equal(m[0].Scope, []string{"default", "needle"}) {
		t.Errorf("FuzzySearch() = %+v, %v", fuzzy, err)
	}
	if _, _, err := c.Search().FuzzySearch("x", contexts.All, nil); err == nil {
		t.Error("FuzzySearch() took one character")
	}
}
