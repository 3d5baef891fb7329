package agent_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// runnable is a valid job with most blocks.
const runnable = `{"Job": {"ID": "j", "Type": "service", "Meta": {"a": "b"},
	"Constraints": [{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}],
	"Affinities": [{"LTarget": "${node.datacenter}", "RTarget": "dc1", "Operand": "=", "Weight": 50}],
	"Spreads": [{"Attribute": "${node.datacenter}", "Weight": 50, "SpreadTarget": [{"Value": "dc1", "Percent": 50}]}],
	"Update": {"MaxParallel": 1, "Canary": 1}, "UI": {"Description": "d", "Links": [{"Label": "l", "Url": "http://a.example"}]},
	"TaskGroups": [{"Name": "g", "Count": 1, "Meta": {"a": "b"}, "EphemeralDisk": {"SizeMB": 300}, "Disconnect": {"LostAfter": 1000000000},
		"Constraints": [{"LTarget": "${attr.cpu.arch}", "RTarget": "amd64", "Operand": "="}], "Consul": {"Cluster": "default"},
		"Migrate": {"MaxParallel": 1, "HealthCheck": "checks", "MinHealthyTime": 1000000000, "HealthyDeadline": 60000000000},
		"RestartPolicy": {"Attempts": 1, "Interval": 60000000000, "Delay": 1000000000, "Mode": "fail"},
		"ReschedulePolicy": {"Attempts": 1, "Interval": 60000000000, "Delay": 5000000000, "DelayFunction": "constant", "Unlimited": false},
		"Scaling": {"Min": 1, "Max": 3, "Enabled": true, "Policy": {"a": {"b": [1]}}},
		"Volumes": {"v": {"Name": "v", "Type": "host", "Source": "v", "AccessMode": "single-node-writer", "AttachmentMode": "file-system"}},
		"Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}], "ReservedPorts": [{"Label": "x", "Value": 9999}],
			"DNS": {"Servers": ["10.0.0.1"], "Searches": ["a.example"], "Options": ["ndots:2"]}}],
		"Services": [{"Name": "web", "PortLabel": "http", "Tags": ["a"], "CanaryTags": ["b"], "Meta": {"a": "b"},
			"TaggedAddresses": {"lan": "10.0.0.1"}, "Weights": {"Passing": 1, "Warning": 1}, "Checks": [
			{"Type": "http", "Path": "/", "Interval": 1000000000, "Timeout": 1000000000, "Header": {"A": ["b"]},
				"CheckRestart": {"Limit": 3, "Grace": 1000000000}},
			{"Name": "s", "Type": "script", "TaskName": "t", "Command": "/bin/true", "Args": ["a"], "Interval": 1000000000, "Timeout": 1000000000}]}],
		"Tasks": [{"Name": "t", "Driver": "exec2", "Config": {"command": "/bin/true", "args": ["a"]}, "Env": {"A": "b"}, "Meta": {"a": "b"},
			"Resources": {"CPU": 10, "MemoryMB": 10, "Devices": [{"Name": "a/gpu", "Count": 1, "Constraints": [
				{"LTarget": "${device.model}", "RTarget": "x", "Operand": "="}],
				"Affinities": [{"LTarget": "${device.model}", "RTarget": "x", "Operand": "=", "Weight": 1}]}]},
			"Services": [{"Name": "db", "Provider": "nomad", "PortLabel": "http"}], "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
			"Templates": [{"EmbeddedTmpl": "a", "DestPath": "local/a", "ChangeMode": "noop", "Wait": {"Min": 1000000000, "Max": 2000000000}}],
			"Artifacts": [{"GetterSource": "http://a.example/a", "RelativeDest": "local/b", "GetterOptions": {"a": "b"}, "GetterHeaders": {"a": "b"}}],
			"VolumeMounts": [{"Volume": "v", "Destination": "/v", "ReadOnly": true}], "KillTimeout": 1000000000,
			"Identity": {"Env": true}, "Identities": [{"Name": "aws", "Audience": ["aws"], "TTL": 3600000000000}],
			"Vault": {"Role": "r", "Cluster": "default", "Env": true, "DisableFile": true, "ChangeMode": "signal", "ChangeSignal": "SIGHUP",
				"AllowTokenExpiration": false},
			"Secrets": [{"Name": "n", "Provider": "nomad", "Path": "a", "Config": {"namespace": "default"}},
				{"Name": "v", "Provider": "vault", "Path": "secret/a", "Config": {"engine": "kv_v2"}},
				{"Name": "p", "Provider": "plugin", "Path": "a", "Env": {"A": "b"}}],
			"Actions": [{"Name": "a", "Command": "/bin/true", "Args": ["a"]}], "RestartPolicy": {"Attempts": 1, "Mode": "fail"}},
			{"Name": "p", "Driver": "exec2", "Config": {"command": "/bin/true"}, "Lifecycle": {"Hook": "prestart", "Sidecar": false}}]}]}}`

// TestNulls_Job puts null at every place of a job: of a valid one, and of one with every field of package api. Each is
// accepted, or refused with a status of the caller. A null instead of an object in a list is refused.
func TestNulls_Job(t *testing.T) {
	const withVault = "vault {\n enabled = true\n address = \"http://127.0.0.1:1\"\n default_identity {\n aud = [\"vault.io\"]\n ttl = \"1h\"\n}\n}\n"
	a, _ := run(t, serverOnly(t, write(t, free+withVault))...)
	testpace.Until(t, "there is a leader", func() bool {
		code, _ := as(t, a, "", http.MethodPut, "/v1/validate/job", runnable)
		return code == http.StatusOK
	})
	var valid any
	if err := json.Unmarshal([]byte(runnable), &valid); err != nil {
		t.Fatal(err)
	}
	if code, text := as(t, a, "", http.MethodPut, "/v1/jobs", runnable); code != http.StatusOK {
		t.Fatalf("the job is not valid: %d %s", code, text)
	}
	every := map[string]any{"Job": sample(t, reflect.TypeFor[api.Job]())}
	for key, value := range map[string]string{"ID": "j", "Region": "global", "Namespace": "default"} {
		every["Job"].(map[string]any)[key] = value
	}
	if code, text := as(t, a, "", http.MethodPut, "/v1/jobs", encoded(every)); code != http.StatusBadRequest || strings.Contains(text, "is null") {
		t.Fatalf("the job with every field: %d %s", code, text)
	}
	for name, body := range map[string]any{"valid": valid, "every field": every} {
		for _, path := range []string{"/v1/validate/job", "/v1/job/j/plan", "/v1/jobs"} {
			t.Run(name+path, func(t *testing.T) {
				places := everyNull(body, func(place string, object bool, text string) {
					code, answer := as(t, a, "", http.MethodPut, path, text)
					accepted := code == http.StatusOK && !strings.Contains(answer, `"Error":"job`)
					if code >= http.StatusInternalServerError || object && accepted {
						t.Errorf("null at %s: %d %.300s", place, code, answer)
					}
				})
				if places < 100 {
					t.Errorf("%d places, want at least 100", places)
				}
			})
		}
	}
}

// bodies are valid bodies of other writes.
var bodies = map[string]string{
	"/v1/var/a":       `{"Items": {"k": "v"}, "Lock": {"TTL": "30s", "LockDelay": "15s"}}`,
	"/v1/namespace/n": `{"Name": "n", "Meta": {"a": "b"}, "Capabilities": {"EnabledTaskDrivers": ["exec2"]}, "NodePoolConfiguration": {"Default": "default"}}`,
	"/v1/node/pool/p": `{"Name": "p", "Meta": {"a": "b"}, "SchedulerConfiguration": {"SchedulerAlgorithm": "spread"}}`,
	"/v1/quota/q":     `{"Name": "q", "Limits": [{"Region": "global", "RegionLimit": {"CPU": 100, "MemoryMB": 100}}]}`,
	"/v1/acl/policy/p": `{"Name": "p", "Rules": "namespace \"default\" {\n policy = \"read\"\n}", ` +
		`"JobACL": {"Namespace": "default", "JobID": "j", "Group": "g", "Task": "t"}}`,
	"/v1/acl/token": `{"Name": "t", "Type": "client", "Policies": ["p"], "Roles": [{"Name": "r"}], "ExpirationTTL": "1h"}`,
	"/v1/acl/role":  `{"Name": "r2", "Policies": [{"Name": "p"}]}`,
	"/v1/acl/auth-method": `{"Name": "m2", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": {` +
		`"JWTValidationPubKeys": ["k"], "BoundAudiences": ["a"], "ClaimMappings": {"a": "b"}, "ListClaimMappings": {"c": "d"}}}`,
	"/v1/acl/binding-rule":                 `{"AuthMethod": "m", "BindType": "policy", "BindName": "p", "Selector": "value.a == x"}`,
	"/v1/job/j/scale":                      `{"Count": 0, "Target": {"Group": "g"}, "Message": "m", "Meta": {"a": {"b": 1}}}`,
	"/v1/operator/scheduler/configuration": `{"SchedulerAlgorithm": "binpack", "PreemptionConfig": {"BatchSchedulerEnabled": true}}`,
	"/v1/search/fuzzy":                     `{"Text": "jo", "Context": "jobs", "Namespace": "default"}`,
	"/v1/volume/host/create": `{"Volume": {"Name": "v", "PluginID": "mkdir", "NodePool": "default", "RequestedCapabilities": [` +
		`{"AttachmentMode": "file-system", "AccessMode": "single-node-writer"}], "Constraints": [{"LTarget": "${attr.a}", "RTarget": "b", "Operand": "="}]}}`,
}

// TestNulls_Bodies does the same for the other bodies of writes: valid ones, and those with every field. A null is never
// an error of the server.
func TestNulls_Bodies(t *testing.T) {
	a, _ := run(t, serverOnly(t, write(t, free+"acl {\n enabled = true\n}\n"))...)
	var token secret
	testpace.Until(t, "there is a leader", func() bool {
		code, text := as(t, a, "", http.MethodPut, "/v1/acl/bootstrap", "")
		return code == http.StatusOK && json.Unmarshal([]byte(text), &token) == nil
	})
	for _, w := range []struct{ path, body string }{
		{"/v1/jobs", `{"Job":{"ID":"j","Type":"batch","TaskGroups":[{"Name":"g","Count":0,` +
			`"Tasks":[{"Name":"t","Driver":"exec2","Config":{"command":"/bin/true"}}]}]}}`},
		{"/v1/acl/policy/p", bodies["/v1/acl/policy/p"]}, {"/v1/acl/role", `{"Name": "r", "Policies": [{"Name": "p"}]}`},
	} {
		if code, text := as(t, a, token.SecretID, http.MethodPut, w.path, w.body); code != http.StatusOK {
			t.Fatalf("%s: %d %s", w.path, code, text)
		}
	}
	try := func(t *testing.T, path string, body any) {
		everyNull(body, func(place string, _ bool, text string) {
			if code, answer := as(t, a, token.SecretID, http.MethodPut, path, text); code == http.StatusInternalServerError {
				t.Errorf("null at %s: %d %.300s", place, code, answer)
			}
		})
	}
	for path, text := range bodies {
		t.Run("valid"+path, func(t *testing.T) {
			var body any
			if err := json.Unmarshal([]byte(text), &body); err != nil {
				t.Fatal(err)
			}
			if code, answer := as(t, a, token.SecretID, http.MethodPut, path, text); code != http.StatusOK {
				t.Logf("refused: %d %.300s", code, answer)
			}
			try(t, path, body)
		})
	}
	for path, body := range map[string]any{
		"/v1/var/a": api.Variable{}, "/v1/namespace/a": api.Namespace{}, "/v1/node/pool/a": api.NodePool{},
		"/v1/volume/host/create": api.HostVolumeCreateRequest{}, "/v1/volume/host/register": api.HostVolumeRegisterRequest{},
		"/v1/quota/a": api.QuotaSpec{}, "/v1/acl/policy/a": api.ACLPolicy{}, "/v1/acl/token": api.ACLToken{}, "/v1/acl/role": api.ACLRole{},
		"/v1/acl/auth-method": api.ACLAuthMethod{}, "/v1/acl/binding-rule": api.ACLBindingRule{}, "/v1/acl/login": api.ACLLoginRequest{},
		"/v1/acl/oidc/auth-url": api.ACLOIDCAuthURLRequest{}, "/v1/acl/oidc/complete-auth": api.ACLOIDCCompleteAuthRequest{},
		"/v1/job/j/scale": api.ScalingRequest{}, "/v1/job/j/dispatch": api.JobDispatchRequest{}, "/v1/jobs/parse": api.JobsParseRequest{},
		"/v1/operator/scheduler/configuration": api.SchedulerConfiguration{}, "/v1/operator/autopilot/configuration": api.AutopilotConfiguration{},
		"/v1/search": api.SearchRequest{}, "/v1/search/fuzzy": api.FuzzySearchRequest{},
		"/v1/node/a/drain": api.NodeUpdateDrainRequest{}, "/v1/node/a/eligibility": api.NodeUpdateEligibilityRequest{},
	} {
		t.Run("every field"+path, func(t *testing.T) { try(t, path, sample(t, reflect.TypeOf(body))) })
	}
}

// everyNull calls try for each place of a document with the text that has null there, and returns their number. object
// reports whether the null replaces an object in a list of blocks.
func everyNull(doc any, try func(place string, object bool, text string)) (places int) {
	root := []any{doc}
	var visit func(v any, place string)
	at := func(place string, object bool, old any, set func(any)) {
		set(nil)
		try(place, object, encoded(root[0]))
		places++
		set(old)
		visit(old, place)
	}
	visit = func(v any, place string) {
		switch v := v.(type) {
		case []any:
			for i, old := range v {
				_, object := old.(map[string]any)
				at(fmt.Sprintf("%s[%d]", place, i), object && !strings.Contains(place, ".Policy.") && !strings.Contains(place, ".Config."), old, func(n any) { v[i] = n })
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				at(place+"."+key, false, v[key], func(n any) { v[key] = n })
			}
		}
	}
	at("body", false, doc, func(n any) { root[0] = n })
	return places
}

func encoded(doc any) string {
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(text)
}

// sample returns a document with every field of a type.
func sample(t *testing.T, of reflect.Type) any {
	t.Helper()
	v := reflect.New(of)
	populate(v.Elem(), 0)
	text, err := json.Marshal(v.Interface())
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// populate sets every field of a value. Types that contain themselves end at a depth.
func populate(v reflect.Value, depth int) {
	if depth > 20 || v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), depth+1)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(map[string]any{"a": []any{map[string]any{"b": "c"}}}))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(v.Index(0), depth+1)
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		populate(elem, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("a").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				populate(v.Field(i), depth+1)
			}
		}
	}
}
