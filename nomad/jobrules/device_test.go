package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestDevices(t *testing.T) {
	memory := &nomad.Constraint{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "2 GiB"}
	for name, c := range map[string]struct {
		device nomad.RequestedDevice
		want   string // "" if the device is valid
	}{
		"type":            {nomad.RequestedDevice{Name: "gpu", Count: 1}, ""},
		"vendor and type": {nomad.RequestedDevice{Name: "nvidia/gpu", Count: 2, Constraints: nomad.Constraints{memory}}, ""},
		"name with slash": {nomad.RequestedDevice{Name: "nvidia/gpu/a/b", Count: 1}, ""},
		"affinity": {nomad.RequestedDevice{Name: "gpu", Count: 1,
			Affinities: nomad.Affinities{{LTarget: "${device.model}", Operand: "regexp", RTarget: "^T4", Weight: 50}}}, ""},
		"no name":    {nomad.RequestedDevice{Count: 1}, "the name must be"},
		"empty part": {nomad.RequestedDevice{Name: "nvidia//t4", Count: 1}, "the name must be"},
		"count 0":    {nomad.RequestedDevice{Name: "gpu"}, "count is 0"},
		"no device": {nomad.RequestedDevice{Name: "gpu", Count: 1,
			Constraints: nomad.Constraints{{LTarget: "${attr.x}", Operand: "=", RTarget: "1"}}},
			`the attribute of a constraint is "${attr.x}"`},
		"distinct": {nomad.RequestedDevice{Name: "gpu", Count: 1, Constraints: nomad.Constraints{{Operand: "distinct_hosts"}}},
			"distinct_hosts, which is not allowed in devices"},
		"operator": {nomad.RequestedDevice{Name: "gpu", Count: 1,
			Constraints: nomad.Constraints{{LTarget: "${device.model}", Operand: "like"}}}, `unknown constraint operator "like"`},
		"weight": {nomad.RequestedDevice{Name: "gpu", Count: 1,
			Affinities: nomad.Affinities{{LTarget: "${device.model}", Operand: "=", RTarget: "T4"}}}, "the weight of an affinity is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			j := sample("service")
			j.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 10, MemoryMB: 10, Devices: nomad.ResourceDevices{&c.device}}
			jobrules.Canonicalize(j)
			err := jobrules.Validate(j)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Validate() = %v, want %q", err, c.want)
			}
			if c.want != "" && !strings.Contains(err.Error(), `device "`+c.device.Name+`"`) {
				t.Errorf("Validate() = %v, which does not name the device", err)
			}
		})
	}
}

func TestNUMA(t *testing.T) {
	for _, affinity := range []string{"none", "prefer", "require"} {
		for _, cores := range []int{0, 2} {
			j := sample("service")
			r := &nomad.Resources{Cores: cores, MemoryMB: 10, NUMA: &nomad.NUMA{Affinity: affinity}}
			if cores == 0 {
				r.CPU = 10
			}
			j.TaskGroups[0].Tasks[0].Resources = r
			jobrules.Canonicalize(j)
			if err := jobrules.Validate(j); err != nil {
				t.Errorf("numa %s with %d cores: %v", affinity, cores, err)
			}
			warned := strings.Contains(strings.Join(jobrules.Warnings(j), ""), "affinity of numa has no effect")
			if want := affinity != "none" && cores == 0; warned != want {
				t.Errorf("numa %s with %d cores: warned %v, want %v", affinity, cores, warned, want)
			}
		}
	}
}

func TestNUMA_Devices(t *testing.T) {
	for name, c := range map[string]struct {
		affinity string
		cores    int
		devices  []string
		want     string // part of the error, "" if the job is valid
		warned   bool
	}{
		"require":         {"require", 2, []string{"nvidia/gpu"}, "", false},
		"prefer":          {"prefer", 2, []string{"nvidia/gpu", "nic"}, "", false},
		"none":            {"none", 2, []string{"nic"}, "", true},
		"no cores":        {"require", 0, []string{"nic"}, "", true},
		"no devices":      {"require", 2, nil, "", false},
		"another label":   {"require", 2, []string{"gpu"}, `devices of numa has "gpu"`, false},
		"empty":           {"require", 2, []string{""}, `devices of numa has ""`, false},
		"unknown, none":   {"none", 2, []string{"fpga"}, `devices of numa has "fpga"`, true},
		"unknown, shared": {"require", 0, []string{"fpga"}, `devices of numa has "fpga"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := sample("service")
			r := &nomad.Resources{Cores: c.cores, MemoryMB: 10, NUMA: &nomad.NUMA{Affinity: c.affinity, Devices: c.devices},
				Devices: nomad.ResourceDevices{{Name: "nvidia/gpu", Count: 1}, {Name: "nic", Count: 1}}}
			if c.cores == 0 {
				r.CPU = 10
			}
			j.TaskGroups[0].Tasks[0].Resources = r
			jobrules.Canonicalize(j)
			if err := jobrules.Validate(j); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Validate() = %v, want %q", err, c.want)
			}
			if warned := strings.Contains(strings.Join(jobrules.Warnings(j), ""), "devices of numa have no effect"); warned != c.warned {
				t.Errorf("Warnings() = %q, want one on devices of numa: %v", jobrules.Warnings(j), c.warned)
			}
		})
	}
}
