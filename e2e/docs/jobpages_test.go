package docs_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// keyPages are the pages of the jobspec, with the structs whose keys they describe.
var keyPages = map[string][]any{
	"job": {api.Job{}}, "group": {api.TaskGroup{}}, "task": {api.Task{}}, "resources": {api.Resources{}, api.NUMAResource{}},
	"identity": {api.WorkloadIdentity{}}, "spiffe": {api.TaskSpiffe{}},
	"network": {api.NetworkResource{}, api.Port{}, api.DNSConfig{}}, "volume": {api.VolumeRequest{}, api.VolumeMount{}, api.CSIMountOptions{}},
	"csi_plugin":     {api.TaskCSIPluginConfig{}},
	"ephemeral_disk": {api.EphemeralDisk{}}, "logs": {api.LogConfig{}}, "restart": {api.RestartPolicy{}},
	"reschedule": {api.ReschedulePolicy{}},
	"update":     {api.UpdateStrategy{}}, "migrate": {api.MigrateStrategy{}}, "constraint": {api.Constraint{}}, "affinity": {api.Affinity{}},
	"spread": {api.Spread{}}, "lifecycle": {api.TaskLifecycle{}}, "ui": {api.JobUIConfig{}, api.JobUILink{}},
	"scaling":           {api.ScalingPolicy{}},
	"service":           {api.Service{}},
	"check":             {api.ServiceCheck{}, api.CheckRestart{}},
	"periodic":          {api.PeriodicConfig{}},
	"device":            {api.RequestedDevice{}},
	"schedule":          {api.TaskScheduleCron{}},
	"consul":            {api.Consul{}},
	"vault":             {api.Vault{}},
	"connect":           {api.ConsulConnect{}},
	"sidecar_service":   {api.ConsulSidecarService{}},
	"sidecar_task":      {api.SidecarTask{}},
	"proxy":             {api.ConsulProxy{}},
	"upstreams":         {api.ConsulUpstream{}, api.ConsulMeshGateway{}},
	"expose":            {api.ConsulExposeConfig{}, api.ConsulExposePath{}},
	"transparent_proxy": {api.ConsulTransparentProxy{}},
	"gateway": {api.ConsulGateway{}, api.ConsulGatewayProxy{}, api.ConsulGatewayBindAddress{}, api.ConsulIngressConfigEntry{}, api.ConsulIngressListener{},
		api.ConsulIngressService{}, api.ConsulGatewayTLSConfig{}, api.ConsulGatewayTLSSDSConfig{}, api.ConsulHTTPHeaderModifiers{},
		api.ConsulTerminatingConfigEntry{}, api.ConsulLinkedService{}},
	"parameterized": {api.ParameterizedJobConfig{}, api.DispatchPayloadConfig{}},
}

// TestJobPages checks that each page of the jobspec has every key of its block, and that not-yet.md
// has the rejected keys.
func TestJobPages(t *testing.T) {
	read := func(name string) string {
		raw, err := os.ReadFile("../../website/content/docs/" + name)
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
