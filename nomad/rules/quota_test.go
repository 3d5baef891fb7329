package rules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

func TestQuota(t *testing.T) {
	with := func(r nomad.QuotaResources) *nomad.QuotaSpec {
		return &nomad.QuotaSpec{Name: "q", Limits: []*nomad.QuotaLimit{{Region: "r", RegionLimit: &r}}}
	}
	for want, q := range map[string]*nomad.QuotaSpec{
		"invalid quota name":                             {Name: "a b"},
		"longer than 256":                                {Name: "q", Description: strings.Repeat("x", 257)},
		"has no limit":                                   {Name: "q"},
		"has no region":                                  {Name: "q", Limits: []*nomad.QuotaLimit{{}}},
		"two limits":                                     {Name: "q", Limits: []*nomad.QuotaLimit{{Region: "r"}, {Region: "r"}}},
		"limits of devices: not available yet":           with(nomad.QuotaResources{Devices: []*nomad.RequestedDevice{{}}}),
		"limits of NUMA: not available yet":              with(nomad.QuotaResources{NUMA: &nomad.NUMA{}}),
		"limits of secrets: not available yet":           with(nomad.QuotaResources{SecretsMB: new(1)}),
		"limits of host volumes: not available yet":      with(nomad.QuotaResources{Storage: &nomad.QuotaStorageResources{HostVolumesMB: 1}}),
		"limits of single node pools: not available yet": with(nomad.QuotaResources{NodePools: []*nomad.NodePoolLimit{{}}}),
		"limits variables twice": {Name: "q",
			Limits: []*nomad.QuotaLimit{{Region: "r", VariablesLimit: new(1),
				RegionLimit: &nomad.QuotaResources{Storage: &nomad.QuotaStorageResources{VariablesMB: 2}}}}},
	} {
		if err := rules.Quota(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %q", err, want)
		}
	}
	if err := rules.Quota(with(nomad.QuotaResources{CPU: new(-1), SecretsMB: new(0)})); err != nil {
		t.Error(err)
	}
}
