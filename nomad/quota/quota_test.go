package quota_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/quota"
)

func TestVariablesAllowance(t *testing.T) {
	for name, c := range map[string]struct {
		limit *quota.Limit
		want  int64 // -1 for no limit
	}{
		"nothing":      {&quota.Limit{}, -1},
		"zero":         {&quota.Limit{VariablesLimit: new(0)}, -1},
		"none allowed": {&quota.Limit{VariablesLimit: new(-1)}, 0},
		"older place":  {&quota.Limit{VariablesLimit: new(2)}, 2 << 20},
		"storage": {&quota.Limit{VariablesLimit: new(2),
			RegionLimit: &quota.Resources{Storage: &quota.StorageResources{VariablesMB: 3}}}, 3 << 20},
		"another region": {&quota.Limit{Region: "far", VariablesLimit: new(2)}, -1},
	} {
		got := (&quota.Spec{Name: "q", Limits: []*quota.Limit{c.limit}}).Variables("")
		if got == nil != (c.want < 0) || got != nil && got.Bytes != c.want {
			t.Errorf("%s: %+v, want %d", name, got, c.want)
		}
	}
}

// The key of a limit depends on its content, not on its previous key.
func TestQuotaHashes(t *testing.T) {
	q := &quota.Spec{Name: "q", Limits: []*quota.Limit{{Region: "r", VariablesLimit: new(1)}}}
	var keys []string
	for range 2 {
		if err := q.SetHashes(); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, q.Limits[0].Key())
	}
	q.Limits[0].VariablesLimit = new(2)
	if err := q.SetHashes(); err != nil {
		t.Fatal(err)
	}
	if keys[0] != keys[1] || keys[0] == q.Limits[0].Key() || keys[0] == "" {
		t.Errorf("keys %q, then %q", keys, q.Limits[0].Key())
	}
}
