package httpapi_test

import (
	"cmp"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/jobspec"
	"github.com/open-nomad/open-nomad/nomad"
)

// onlyAPI lists the job fields that servers do not have: Canonicalize moves them, or they have no
// effect. onlyServer lists the fields that only servers set.
var (
	onlyAPI = map[string]bool{
		"Job.Reschedule":                true, // moved into the groups
		"Job.Migrate":                   true, // moved into the groups
		"LogConfig.Enabled":             true,
		"Service.CheckRestart":          true, // moved into the checks
		"ServiceCheck.Advertise":        true,
		"Vault.Policies":                true,
		"ScalingPolicy.Namespace":       true,
		"ConsulProxy.ExposeConfig":      true, // moved into Expose
		"ConsulExposeConfig.Path":       true, // moved into Paths
		"ConsulGatewayBindAddress.Name": true,
	}
	onlyServer = map[string]bool{
		"Service.Namespace": true,
		"Job.Registrant":    true,
	}
)

// Every field of a job is converted from the API to the servers. The conversion uses JSON with the
// same names (compared as encoding/json does, without case).
func TestJobFieldsCross(t *testing.T) {
	seen := map[reflect.Type]bool{}
	used := map[string]bool{}
	var walk func(a, n reflect.Type)
	walk = func(a, n reflect.Type) {
		a, n = structOf(a), structOf(n)
		if a == nil || n == nil || seen[a] {
			return
		}
		seen[a] = true
		server := map[string]reflect.StructField{}
		for _, f := range reflect.VisibleFields(n) {
			if f.IsExported() {
				server[jsonName(f)] = f
			}
		}
		for _, f := range reflect.VisibleFields(a) {
			name := a.Name() + "." + f.Name
			other, ok := server[jsonName(f)]
			delete(server, jsonName(f))
			switch {
			case !ok && !onlyAPI[name]:
				t.Errorf("%s has no place in nomad.%s", name, n.Name())
			case !ok:
				used[name] = true
			default:
				walk(f.Type, other.Type)
			}
		}
		for _, f := range server {
			if name := a.Name() + "." + f.Name; onlyServer[name] {
				used[name] = true
			} else {
				t.Errorf("%s is missing in package api", name)
			}
		}
	}
	walk(reflect.TypeFor[api.Job](), reflect.TypeFor[nomad.Job]())
	for _, list := range []map[string]bool{onlyAPI, onlyServer} {
		for name := range list {
			if !used[name] {
				t.Errorf("%s is listed as a difference but is none", name)
			}
		}
	}
}

// jsonName returns the name of a field in JSON, in lower case.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.ToLower(cmp.Or(name, f.Name))
}

// structOf returns the struct type of a field, directly or in a list or map.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// The servers' job has the values of a job file that uses every block.
func TestJobValuesCross(t *testing.T) {
	src, err := os.ReadFile("../../../jobspec/testdata/everything.hcl")
	if err != nil {
		t.Fatal(err)
	}
	in, err := jobspec.Parse(jobspec.Config{Filename: "everything.hcl", Source: src, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := httpapi.CanonicalJob(in)
	if err != nil {
		t.Fatalf("the servers can't read the job: %v", err)
	}
	task := out.TaskGroups[0].Tasks[0]
	if task.KillTimeout != *in.TaskGroups[0].Tasks[0].KillTimeout || task.Templates[0].DestPath != "destination" ||
		out.TaskGroups[0].Services[0].Checks[0].CheckRestart.Limit != 3 {
		t.Errorf("values were lost: %+v", task)
	}
}
