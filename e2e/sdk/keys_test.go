package sdk_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"
)

// Answers have the keys of the SDK's types: tools in other languages read JSON by its keys.
func TestSDKKeys(t *testing.T) {
	b := newBench(t)
	for path, v := range map[string]any{
		"/v1/jobs":                                          []*sdk.JobListStub{},
		"/v1/job/web":                                       sdk.Job{},
		"/v1/job/web/versions":                              sdk.JobVersionsResponse{},
		"/v1/job/web/allocations":                           []*sdk.AllocationListStub{},
		"/v1/job/web/evaluations":                           []*sdk.Evaluation{},
		"/v1/job/web/deployments":                           []*sdk.Deployment{},
		"/v1/job/web/deployment":                            sdk.Deployment{},
		"/v1/job/web/summary":                               sdk.JobSummary{},
		"/v1/job/web/submission?version=0":                  sdk.JobSubmission{},
		"/v1/nodes":                                         []*sdk.NodeListStub{},
		"/v1/nodes?resources=true&os=true":                  []*sdk.NodeListStub{},
		"/v1/node/" + b.node:                                sdk.Node{},
		"/v1/node/" + b.node + "/allocations":               []*sdk.Allocation{},
		"/v1/node/pools":                                    []*sdk.NodePool{},
		"/v1/node/pool/default":                             sdk.NodePool{},
		"/v1/node/pool/default/nodes":                       []*sdk.NodeListStub{},
		"/v1/allocations":                                   []*sdk.AllocationListStub{},
		"/v1/allocations?resources=true":                    []*sdk.AllocationListStub{},
		"/v1/allocation/" + b.alloc.ID:                      sdk.Allocation{},
		"/v1/evaluations":                                   []*sdk.Evaluation{},
		"/v1/evaluation/" + b.eval:                          sdk.Evaluation{},
		"/v1/evaluation/" + b.eval + "?related=true":        sdk.Evaluation{},
		"/v1/evaluation/" + b.eval + "/allocations":         []*sdk.AllocationListStub{},
		"/v1/deployments":                                   []*sdk.Deployment{},
		"/v1/namespaces":                                    []*sdk.Namespace{},
		"/v1/namespace/default":                             sdk.Namespace{},
		"/v1/regions":                                       []string{},
		"/v1/agent/self":                                    sdk.AgentSelf{},
		"/v1/agent/members":                                 sdk.ServerMembers{},
		"/v1/agent/health":                                  sdk.AgentHealthResponse{},
		"/v1/client/stats?node_id=" + b.node:                sdk.HostStats{},
		"/v1/client/allocation/" + b.alloc.ID + "/stats":    sdk.AllocResourceUsage{},
		"/v1/client/fs/ls/" + b.alloc.ID:                    []*sdk.AllocFileInfo{},
		"/v1/client/fs/stat/" + b.alloc.ID + "?path=/alloc": sdk.AllocFileInfo{},
		"/v1/operator/raft/configuration":                   sdk.RaftConfiguration{},
		"/v1/operator/autopilot/configuration":              sdk.AutopilotConfiguration{},
		"/v1/operator/autopilot/health":                     sdk.OperatorHealthReply{},
		"/v1/operator/scheduler/configuration":              sdk.SchedulerConfigurationResponse{},
		"/v1/operator/keyring/keys":                         []*sdk.RootKeyMeta{},
		"/v1/metrics":                                       sdk.MetricsSummary{},
		"/v1/acl/token/self":                                sdk.ACLToken{},
		"/v1/agent/schedulers":                              sdk.AgentSchedulerWorkersInfo{},
		"/v1/agent/schedulers/config":                       sdk.AgentSchedulerWorkerConfigResponse{},
	} {
		var got any
		if _, err := b.Raw().Query(path, &got, nil); err != nil {
			t.Errorf("GET %s: %v", path, err)
			continue
		}
		for _, missing := range keysMissing("", got, reflect.TypeOf(v)) {
			t.Errorf("GET %s: %s", path, missing)
		}
	}
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// keysMissing lists the keys of a type that a JSON value lacks.
func keysMissing(path string, got any, t reflect.Type) []string {
	var out []string
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if got == nil || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return nil
	}
	switch g := got.(type) {
	case []any:
		if t.Kind() == reflect.Interface {
			return nil
		}
		if t.Kind() != reflect.Slice {
			return []string{fmt.Sprintf("%s is a list, want %s", path, t)}
		}
		for _, e := range g {
			out = append(out, keysMissing(path+"[]", e, t.Elem())...)
		}
	case map[string]any:
		switch t.Kind() {
		case reflect.Map:
			for _, e := range g {
				out = append(out, keysMissing(path+"{}", e, t.Elem())...)
			}
		case reflect.Struct:
			out = structKeysMissing(path, g, t)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// leftOut are keys of the SDK's types that servers omit. sparse are types whose keys are omitted
// while empty, as Nomad 2.0.
var (
	leftOut = map[string][]string{"Job": {"Migrate", "Reschedule"}, "LogConfig": {"Enabled"}, "Node": {"Resources", "Reserved"},
		"TaskEvent":                      {"DiskSize"},
		"SchedulerConfigurationResponse": {"LastIndex", "RequestTime"}, "JobVersionsResponse": {"LastIndex", "RequestTime"}} // in headers
	sparse = []string{"Allocation", "Evaluation", "NetworkResource", "Port", "PortMapping"}
)

func structKeysMissing(path string, got map[string]any, t reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous || name == "-" || slices.Contains(leftOut[t.Name()], f.Name) {
			continue
		}
		name = cmp.Or(name, f.Name)
		e, there := got[name]
		switch {
		case there:
			out = append(out, keysMissing(path+"."+name, e, f.Type)...)
		case !strings.Contains(options, "omitempty") && !slices.Contains(sparse, t.Name()):
			out = append(out, path+"."+name+" is missing")
		}
	}
	return out
}
