package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// A body with the name of a key in HCL is refused with the right name: without it, the limit would be missing silently.
// All routes that write an object which limits or grants something are listed.
func TestNamesOfHCL(t *testing.T) {
	s := newTestServer(t, 0)
	for _, tt := range []struct{ path, body, want string }{
		{"/v1/quota", `{"Name":"q","Limits":[{"Region":"global","RegionLimit":{"Storage":{"Variables":1}}}]}`,
			`unknown key "Variables" in Limits[0].RegionLimit.Storage: the name in the JSON API is "VariablesMB"`},
		{"/v1/quota/q", `{"Name":"q","Limits":[{"RegionLimit":{"Storage":{"variables":1}}}]} trailing`, `"VariablesMB"`},
		{"/v1/quota", `{"Name":"q","Limits":[{"RegionLimit":{"Storage":{"host_volumes":1}}}]}`, `"HostVolumesMB"`},
		{"/v1/quota", `{"Name":"q","Limits":[{"RegionLimit":{"memory":1}}]}`, `"MemoryMB"`},
		{"/v1/quota", `{"Name":"q","Limits":[{"RegionLimit":{"memory_max":1}}]}`, `"MemoryMaxMB"`},
		{"/v1/quota", `{"Name":"q","Limits":[{"RegionLimit":{"secrets":1}}]}`, `"SecretsMB"`},
		{"/v1/quota", `{"Name":"q","Limits":[{"variables_limit":1}]}`, `"VariablesLimit"`},
		{"/v1/quota", `{"Name":"q","Limits":[{"region_limit":{"cpu":1}}]}`, `"RegionLimit"`},
		{"/v1/quota", `{"Name":"q","limit":[{}]}`, `"Limits"`},
		{"/v1/namespace", `{"Name":"n","node_pool_config":{"denied":["x"]}}`, `"NodePoolConfiguration"`},
		{"/v1/namespace", `{"Name":"n","Capabilities":{"disabled_task_drivers":["raw_exec"]}}`,
			`unknown key "disabled_task_drivers" in Capabilities: the name in the JSON API is "DisabledTaskDrivers"`},
		{"/v1/namespace/n", `{"Name":"n","Capabilities":{"enabled_network_modes":["bridge"]}}`, `"EnabledNetworkModes"`},
		{"/v1/node/pools", `{"Name":"p","scheduler_config":{"scheduler_algorithm":"spread"}}`, `"SchedulerConfiguration"`},
		{"/v1/node/pool/p", `{"Name":"p","SchedulerConfiguration":{"memory_oversubscription_enabled":false}}`, `"MemoryOversubscriptionEnabled"`},
		{"/v1/acl/policy/p", `{"Name":"p","Rules":"","job_acl":{"job_id":"j"}}`, `"JobACL"`},
		{"/v1/acl/policy/p", `{"Name":"p","Rules":"","JobACL":{"job_id":"j"}}`, `"JobID"`},
		{"/v1/acl/token", `{"Type":"client","expiration_ttl":"1h"}`, `"ExpirationTTL"`},
		{"/v1/acl/token", `{"Type":"client","expiration_time":"2026-01-02T03:04:05Z"}`, `"ExpirationTime"`},
		{"/v1/acl/auth-method", `{"Name":"m","max_token_ttl":"1h"}`, `"MaxTokenTTL"`},
		{"/v1/acl/binding-rule", `{"AuthMethod":"m","bind_type":"role"}`, `"BindType"`},
	} {
		w := do(s, "PUT", tt.path, tt.body)
		if refused := w.Code == http.StatusBadRequest && strings.Contains(w.Body.String(), "unknown key"); tt.want != "" &&
			(!refused || !strings.Contains(w.Body.String(), tt.want)) {
			t.Errorf("PUT %s %s: %d %s, want %s", tt.path, tt.body, w.Code, w.Body, tt.want)
		}
	}
	// Keys in any case, free keys of maps, and keys that resemble none are accepted, as in Nomad.
	for path, body := range map[string]string{
		"/v1/quota":     `{"name":"q","limits":[{"regionlimit":{"CPU":1,"storage":{"variablesmb":1}}}],"Unknown":1,"":2}`,
		"/v1/namespace": `{"Name":"n","Meta":{"node_pool_config":"x","Quo":"y"},"Capabilities":null}`,
	} {
		if w := do(s, "PUT", path, body); strings.Contains(w.Body.String(), "unknown key") {
			t.Errorf("PUT %s %s: %d %s", path, body, w.Code, w.Body)
		}
	}
}
