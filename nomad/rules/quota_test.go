package rules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

func TestQuota(t *testing.T) {
	with := func(r quota.Resources) *quota.Spec {
		return &quota.Spec{Name: "q", Limits: []*quota.Limit{{Region: "r", RegionLimit: &r}}}
	}
	for want, q := range map[string]*quota.Spec{
		"invalid quota name":                             {Name: "a b"},
		"longer than 256":                                {Name: "q", Description: strings.Repeat("x", 257)},
		"has no limit":                                   {Name: "q"},
		"has no region":                                  {Name: "q", Limits: []*quota.Limit{{}}},
		"two limits":                                     {Name: "q", Limits: []*quota.Limit{{Region: "r"}, {Region: "r"}}},
		"limits of devices: not available yet":           with(quota.Resources{Devices: []*nomad.RequestedDevice{{}}}),
		"limits of NUMA: not available yet":              with(quota.Resources{NUMA: &nomad.NUMA{}}),
		"limits of secrets: not available yet":           with(quota.Resources{SecretsMB: new(1)}),
		"limits of host volumes: not available yet":      with(quota.Resources{Storage: &quota.StorageResources{HostVolumesMB: 1}}),
		"limits of single node pools: not available yet": with(quota.Resources{NodePools: []*quota.NodePoolLimit{{}}}),
		"limits variables twice": {Name: "q",
			Limits: []*quota.Limit{{Region: "r", VariablesLimit: new(1),
				RegionLimit: &quota.Resources{Storage: &quota.StorageResources{VariablesMB: 2}}}}},
	} {
		if err := rules.Quota(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %q", err, want)
		}
	}
	if err := rules.Quota(with(quota.Resources{CPU: new(-1), SecretsMB: new(0)})); err != nil {
		t.Error(err)
	}
}
