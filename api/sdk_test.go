package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	official "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api"
)

// TestOfficialHealthReply checks that the official SDK decodes a reply with our extra fields.
func TestOfficialHealthReply(t *testing.T) {
	raw, err := json.Marshal(&api.OperatorHealthReply{Healthy: true, FailureTolerance: 1, Warnings: []string{"w"}, Unserved: []string{"u"}})
	if err != nil || !strings.Contains(string(raw), `"Unserved":["u"]`) {
		t.Fatalf("Marshal() = %s, %v", raw, err)
	}
	var got official.OperatorHealthReply
	if err := json.Unmarshal(raw, &got); err != nil || !got.Healthy || got.FailureTolerance != 1 {
		t.Errorf("official SDK decoded %+v, %v", got, err)
	}
}

// TestOfficialTypes checks that JSON of the official SDK survives a round trip.
func TestOfficialTypes(t *testing.T) {
	for _, pair := range []struct{ theirs, ours any }{
		{&official.Job{}, &api.Job{}},
		{&official.JobRegisterRequest{}, &api.JobRegisterRequest{}},
		{&official.JobListStub{}, &api.JobListStub{}},
		{&official.JobSummary{}, &api.JobSummary{}},
		{&official.JobPlanResponse{}, &api.JobPlanResponse{}},
		{&official.JobVersionsResponse{}, &api.JobVersionsResponse{}},
		{&official.JobDispatchResponse{}, &api.JobDispatchResponse{}},
		{&official.JobValidateResponse{}, &api.JobValidateResponse{}},
		{&official.JobSubmission{}, &api.JobSubmission{}},
		{&official.Allocation{}, &api.Allocation{}},
		{&official.AllocationListStub{}, &api.AllocationListStub{}},
		{&official.AllocResourceUsage{}, &api.AllocResourceUsage{}},
		{&official.AllocFileInfo{}, &api.AllocFileInfo{}},
		{&official.StreamFrame{}, &api.StreamFrame{}},
		{&official.Evaluation{}, &api.Evaluation{}},
		{&official.Deployment{}, &api.Deployment{}},
		{&official.Node{}, &api.Node{}},
		{&official.NodeListStub{}, &api.NodeListStub{}},
		{&official.NodeUpdateDrainRequest{}, &api.NodeUpdateDrainRequest{}},
		{&official.NodePool{}, &api.NodePool{}},
		{&official.Namespace{}, &api.Namespace{}},
		{&official.QuotaSpec{}, &api.QuotaSpec{}},
		{&official.QuotaUsage{}, &api.QuotaUsage{}},
		{&official.HostStats{}, &api.HostStats{}},
		{&official.CSIVolume{}, &api.CSIVolume{}},
		{&official.CSIVolumeListStub{}, &api.CSIVolumeListStub{}},
		{&official.CSIVolumeListExternalResponse{}, &api.CSIVolumeListExternalResponse{}},
		{&official.CSIVolumeRegisterRequest{}, &api.CSIVolumeRegisterRequest{}},
		{&official.CSIVolumeCreateRequest{}, &api.CSIVolumeCreateRequest{}},
		{&official.CSISnapshotCreateRequest{}, &api.CSISnapshotCreateRequest{}},
		{&official.CSIPlugin{}, &api.CSIPlugin{}},
		{&official.CSIPluginListStub{}, &api.CSIPluginListStub{}},
		{&official.AgentSelf{}, &api.AgentSelf{}},
		{&official.ServerMembers{}, &api.ServerMembers{}},
		{&official.AgentHealthResponse{}, &api.AgentHealthResponse{}},
		{&official.SchedulerConfigurationResponse{}, &api.SchedulerConfigurationResponse{}},
		{&official.AutopilotConfiguration{}, &api.AutopilotConfiguration{}},
		{&official.OperatorHealthReply{}, &api.OperatorHealthReply{}},
		{&official.RaftConfiguration{}, &api.RaftConfiguration{}},
		{&official.MetricsSummary{}, &api.MetricsSummary{}},
		{&official.ACLPolicy{}, &api.ACLPolicy{}},
		{&official.ACLPolicyListStub{}, &api.ACLPolicyListStub{}},
		{&official.ACLToken{}, &api.ACLToken{}},
		{&official.ACLTokenListStub{}, &api.ACLTokenListStub{}},
		{&official.ACLRole{}, &api.ACLRole{}},
		{&official.ACLRoleListStub{}, &api.ACLRoleListStub{}},
		{&official.BootstrapRequest{}, &api.BootstrapRequest{}},
		{&official.OneTimeTokenUpsertResponse{}, &api.OneTimeTokenUpsertResponse{}},
		{&official.OneTimeTokenExchangeRequest{}, &api.OneTimeTokenExchangeRequest{}},
		{&official.OneTimeTokenExchangeResponse{}, &api.OneTimeTokenExchangeResponse{}},
		{&official.ExecStreamingInput{}, &api.ExecStreamingInput{}},
		{&official.ExecStreamingOutput{}, &api.ExecStreamingOutput{}},
	} {
		t.Run(reflect.TypeOf(pair.ours).Elem().Name(), func(t *testing.T) {
			n := 0
			fill(reflect.ValueOf(pair.theirs).Elem(), &n, 0)
			want := mustMarshal(t, pair.theirs)
			dec := json.NewDecoder(strings.NewReader(string(want)))
			dec.DisallowUnknownFields()
			if err := dec.Decode(pair.ours); err != nil {
				t.Fatalf("decode: %v", err)
			}
			compare(t, "", generic(t, want), generic(t, mustMarshal(t, pair.ours)))
		})
	}
}

// fill sets every field to a different value.
func fill(v reflect.Value, n *int, depth int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 14 || depth > 6 && v.Type().Elem().Kind() == reflect.Struct && strings.HasSuffix(v.Type().Elem().Name(), "StatObject") {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, depth+1)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n, depth+1)
			}
		}
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 1, 1)
		fill(s.Index(0), n, depth+1)
		v.Set(s)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, n, depth+1)
		k := reflect.New(v.Type().Key()).Elem()
		fill(k, n, depth+1)
		m.SetMapIndex(k, e)
		v.Set(m)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("any"))
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(*n%100 + 1))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(uint64(*n%100 + 1))
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func generic(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// compare reports the differences of two JSON values.
func compare(t *testing.T, path string, want, got any) {
	t.Helper()
	wm, ok1 := want.(map[string]any)
	gm, ok2 := got.(map[string]any)
	if ok1 && ok2 {
		keys := map[string]bool{}
		for k := range wm {
			keys[k] = true
		}
		for k := range gm {
			keys[k] = true
		}
		for k := range keys {
			compare(t, path+"."+k, wm[k], gm[k])
		}
		return
	}
	ws, ok1 := want.([]any)
	gs, ok2 := got.([]any)
	if ok1 && ok2 && len(ws) == len(gs) {
		for i := range ws {
			compare(t, fmt.Sprintf("%s[%d]", path, i), ws[i], gs[i])
		}
		return
	}
	if !reflect.DeepEqual(want, got) && !deliberate[path] {
		t.Errorf("%s: official %v, ours %v", path, want, got)
	}
}

// deliberate lists defaults that differ on purpose. A server treats the official value in
// the same way, except that attempts in a reschedule block imply unlimited = false.
var deliberate = map[string]bool{
	".TaskGroups[0].Volumes.v.Name":             true,
	".Constraints[0].Operand":                   true,
	".TaskGroups[0].ReschedulePolicy.Unlimited": true,
}

// TestOfficialDefaults checks that a job has the same meaning for both SDKs.
func TestOfficialDefaults(t *testing.T) {
	for name, src := range map[string]string{
		"empty":           `{"ID": "a"}`,
		"service":         `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t"}]}]}`,
		"batch":           `{"ID": "a", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Resources": {"Cores": 2}}]}]}`,
		"system":          `{"ID": "a", "Type": "system", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t"}]}]}`,
		"sysbatch":        `{"ID": "a", "Type": "sysbatch", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t"}]}]}`,
		"restart":         `{"ID": "a", "TaskGroups": [{"Name": "g", "RestartPolicy": {"Attempts": 7}, "Tasks": [{"Name": "t", "RestartPolicy": {"Mode": "delay"}}]}]}`,
		"reschedule":      `{"ID": "a", "Reschedule": {"Attempts": 3, "Interval": 3600000000000}, "TaskGroups": [{"Name": "g", "ReschedulePolicy": {"Delay": 7000000000}, "Tasks": [{"Name": "t"}]}]}`,
		"update":          `{"ID": "a", "Update": {"MaxParallel": 3}, "TaskGroups": [{"Name": "g", "Update": {"Canary": 1}, "Tasks": [{"Name": "t"}]}]}`,
		"migrate":         `{"ID": "a", "Migrate": {"MaxParallel": 3}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t"}]}]}`,
		"system update":   `{"ID": "a", "Type": "system", "Update": {"MaxParallel": 3}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t"}]}]}`,
		"batch migrate":   `{"ID": "a", "Type": "batch", "TaskGroups": [{"Name": "g", "Migrate": {}, "Tasks": [{"Name": "t"}]}]}`,
		"network":         `{"ID": "a", "TaskGroups": [{"Name": "g", "Networks": [{"DynamicPorts": [{"Label": "x"}]}], "Tasks": [{"Name": "t"}]}]}`,
		"scaling":         `{"ID": "a", "TaskGroups": [{"Name": "g", "Scaling": {"Min": 2, "Max": 5}, "Tasks": [{"Name": "t"}]}]}`,
		"template":        `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Templates": [{"ChangeMode": "signal", "ChangeSignal": "sigusr1"}, {}, {"ChangeScript": {}}]}]}]}`,
		"artifact":        `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Artifacts": [{"GetterSource": "http://x/y.tgz"}, {"GetterSource": "http://x/y", "GetterMode": "file"}]}]}]}`,
		"vault":           `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Vault": {}}]}]}`,
		"volumes":         `{"ID": "a", "TaskGroups": [{"Name": "g", "Volumes": {"v": {"Type": "host"}}, "Tasks": [{"Name": "t", "VolumeMounts": [{"Volume": "v"}]}]}]}`,
		"constraints":     `{"ID": "a", "Constraints": [{"LTarget": "x"}], "Affinities": [{"LTarget": "x", "Operand": "="}], "Spreads": [{"Attribute": "x"}]}`,
		"periodic":        `{"ID": "a", "Type": "batch", "Periodic": {"Spec": "@daily"}}`,
		"multiregion":     `{"ID": "a", "Multiregion": {"Regions": [{"Name": "r"}]}}`,
		"disconnect":      `{"ID": "a", "TaskGroups": [{"Name": "g", "Disconnect": {"LostAfter": 5}, "Tasks": [{"Name": "t"}]}]}`,
		"services":        `{"ID": "a", "TaskGroups": [{"Name": "g", "Services": [{"PortLabel": "x", "Checks": [{"Type": "tcp"}], "CheckRestart": {"Limit": 2}}], "Tasks": [{"Name": "t", "Services": [{"Provider": "nomad"}]}]}]}`,
		"logs":            `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "LogConfig": {"Enabled": false}}]}]}`,
		"csi plugin":      `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "CSIPluginConfig": {"ID": "p"}}]}]}`,
		"empty lifecycle": `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Lifecycle": {}}]}]}`,
		"devices":         `{"ID": "a", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Resources": {"Devices": [{"Name": "gpu"}], "NUMA": {}}}]}]}`,
		"consul":          `{"ID": "a", "TaskGroups": [{"Name": "g", "Consul": {}, "Tasks": [{"Name": "t"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours := &official.Job{}, &api.Job{}
			if err := json.Unmarshal([]byte(src), theirs); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(src), ours); err != nil {
				t.Fatal(err)
			}
			theirs.Canonicalize()
			ours.Canonicalize()
			compare(t, "", sameMeaning(generic(t, mustMarshal(t, theirs))), sameMeaning(generic(t, mustMarshal(t, ours))))
		})
	}
}

// sameMeaning removes null, empty and zero values, which a server treats as unset.
func sameMeaning(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = sameMeaning(e); e == nil {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = sameMeaning(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	}
	if slices.Contains([]any{"", 0.0, false, nil}, any(scalar(v))) {
		return nil
	}
	return v
}

func scalar(v any) any {
	switch v.(type) {
	case string, float64, bool, nil:
		return v
	}
	return "x"
}
