package e2e

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/workload"
)

// keyPages are the pages of the jobspec, with the structs whose keys they describe.
var keyPages = map[string][]any{
	"job": {workload.Job{}}, "group": {workload.TaskGroup{}}, "task": {workload.Task{}}, "resources": {workload.Resources{}, workload.NUMAResource{}}, "identity": {workload.WorkloadIdentity{}}, "spiffe": {workload.TaskSpiffe{}},
	"network": {workload.NetworkResource{}, workload.Port{}, workload.DNSConfig{}}, "volume": {workload.VolumeRequest{}, workload.VolumeMount{}},
	"ephemeral_disk": {workload.EphemeralDisk{}}, "logs": {workload.LogConfig{}}, "restart": {workload.RestartPolicy{}}, "reschedule": {workload.ReschedulePolicy{}},
	"update": {workload.UpdateStrategy{}}, "migrate": {workload.MigrateStrategy{}}, "constraint": {workload.Constraint{}}, "affinity": {workload.Affinity{}},
	"spread": {workload.Spread{}}, "lifecycle": {workload.TaskLifecycle{}}, "ui": {workload.JobUIConfig{}, workload.JobUILink{}},
	"scaling":       {workload.ScalingPolicy{}},
	"service":       {workload.Service{}},
	"check":         {workload.ServiceCheck{}, workload.CheckRestart{}},
	"periodic":      {workload.PeriodicConfig{}},
	"device":        {workload.RequestedDevice{}},
	"schedule":      {workload.TaskScheduleCron{}},
	"parameterized": {workload.ParameterizedJobConfig{}, workload.DispatchPayloadConfig{}},
}

// TestJobPages checks that each page of the jobspec has every key of its block, and that not-yet.md
// has the rejected keys.
func TestJobPages(t *testing.T) {
	read := func(name string) string {
		raw, err := os.ReadFile("../website/content/docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	refused, entry := read("not-yet.md"), read("jobspec.md")
	for page, structs := range keyPages {
		text := read("jobspec/" + page + ".md")
		if !strings.Contains(entry, "(jobspec/"+page+".md)") {
			t.Errorf("jobspec.md has no link to jobspec/%s.md", page)
		}
		for _, s := range structs {
			for _, f := range reflect.VisibleFields(reflect.TypeOf(s)) {
				key, kind, _ := strings.Cut(f.Tag.Get("hcl"), ",")
				if key != "" && kind != "label" && !names(text, key) && !names(refused, key) {
					t.Errorf("jobspec/%s.md does not name the key %s", page, key)
				}
			}
		}
	}
}

// names reports whether a page has a key as code: alone, with a label or with a value.
func names(text, key string) bool {
	for _, end := range []string{"`", " "} {
		if strings.Contains(text, "`"+key+end) {
			return true
		}
	}
	return false
}
