package consulapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// brief returns what identifies the rows of an answer, in their order.
func brief(t *testing.T, body []byte) string {
	t.Helper()
	var decoded any
	if err := json.Unmarshal(body, &decoded); err != nil {
		return strings.TrimSpace(string(body))
	}
	rows, ok := decoded.([]any)
	if !ok {
		return strings.TrimSpace(string(body))
	}
	var out []string
	for _, row := range rows {
		m, ok := row.(map[string]any)
		if !ok {
			out = append(out, fmt.Sprint(row))
			continue
		}
		if s, ok := m["Service"].(map[string]any); ok {
			out = append(out, fmt.Sprint(s["ID"]))
			continue
		}
		for _, name := range []string{"ServiceID", "CheckID", "Key", "Node", "Name"} {
			if v := m[name]; v != nil && v != "" {
				out = append(out, fmt.Sprint(v))
				break
			}
		}
	}
	return strings.Join(out, " ")
}

func TestReads(t *testing.T) {
	s := newServer(newRegion())
	for target, want := range map[string]string{
		"/v1/catalog/datacenters":                                        "dc1",
		"/v1/catalog/services":                                           `{"web":["V1","prod","v1","v2"]}`,
		"/v1/catalog/service/web":                                        "w1 w3 w2",
		"/v1/catalog/service/web?dc=dc1":                                 "w1 w3 w2",
		"/v1/catalog/service/web?tag=v1":                                 "w1 w2",
		"/v1/catalog/service/web?tag=v1&tag=prod":                        "w1",
		"/v1/catalog/service/web?near=beta":                              "w2 w1 w3",
		"/v1/catalog/service/web?near=_agent":                            "w1 w3 w2",
		"/v1/catalog/service/web?node-meta=rack:r2":                      "w2",
		"/v1/catalog/service/absent":                                     "",
		"/v1/catalog/connect/web":                                        "",
		"/v1/catalog/nodes":                                              "alpha beta",
		"/v1/catalog/nodes?node-meta=rack:r1":                            "alpha",
		"/v1/catalog/nodes?near=beta":                                    "beta alpha",
		"/v1/catalog/node/absent":                                        "null",
		"/v1/catalog/node-services/absent":                               "null",
		"/v1/health/service/web":                                         "w1 w3 w2",
		"/v1/health/service/web?passing":                                 "w1",
		"/v1/health/service/web?passing=1&tag=v2":                        "",
		"/v1/health/service/web?passing=false":                           "w1 w3 w2",
		"/v1/health/service/web?filter=Service.ID%3D%3Dw3":               "w3",
		"/v1/health/service/web?filter=%22prod%22+in+Service.Tags":       "w1",
		"/v1/health/service/web?filter=Node.Meta.rack%3D%3Dr2":           "w2",
		"/v1/health/connect/web":                                         "",
		"/v1/health/checks/web":                                          "w3",
		"/v1/health/checks/absent":                                       "",
		"/v1/health/state/critical":                                      "serfHealth w3",
		"/v1/health/state/any":                                           "serfHealth serfHealth w3",
		"/v1/health/state/warning":                                       "",
		"/v1/health/node/alpha":                                          "serfHealth w3",
		"/v1/health/node/n2":                                             "serfHealth",
		"/v1/health/node/absent":                                         "",
		"/v1/agent/members":                                              "alpha beta",
		"/v1/agent/health/service/name/web?format=text":                  "critical",
		"/v1/agent/health/service/id/w1?format=text":                     "passing",
		"/v1/kv/app/db/host":                                             "app/db/host",
		"/v1/kv/app/db/host?raw":                                         "db1",
		"/v1/kv/app%2Fdb%2Fhost?raw":                                     "db1",
		"/v1/kv/app?recurse":                                             "app/db/host app/db/port app/name",
		"/v1/kv/?recurse":                                                "app/db/host app/db/port app/name",
		"/v1/kv/?keys":                                                   "app/db/host app/db/port app/name",
		"/v1/kv/app/?keys&separator=/":                                   "app/db/ app/name",
		"/v1/kv/absent":                                                  "",
		"/v1/kv/app/db/":                                                 "",
		"/v1/kv/absent?recurse":                                          "",
		"/v1/status/leader":                                              `"10.0.0.9:4647"`,
		"/v1/status/peers":                                               "10.0.0.9:4647",
		"/v1/coordinate/nodes":                                           "",
		"/v1/catalog/service/web?stale&cached&pretty":                    "w1 w3 w2",
		"/v1/catalog/service/web?filter=ServiceMeta+is+empty&consistent": "w1 w3 w2",
	} {
		t.Run(target, func(t *testing.T) {
			w := send(s, "GET", target)
			if got := brief(t, w.Body.Bytes()); got != want {
				t.Errorf("%d: %s, want %s", w.Code, got, want)
			}
			if index := w.Header().Get("X-Consul-Index"); index == "" || index == "0" {
				t.Errorf("X-Consul-Index = %q", index)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	s := newServer(newRegion())
	for _, c := range []struct {
		method, target string
		code           int
		text           string
	}{
		{"GET", "/v1/kv/absent", 404, ""},
		{"GET", "/v1/kv/a//b", 307, ""},
		{"GET", "/v1/kv/..%2F..%2Fsecret", 404, ""},
		{"GET", "/v1/agent/service/absent", 404, "unknown service ID"},
		{"GET", "/v1/agent/health/service/name/absent", 404, ""},
		{"GET", "/v1/agent/health/service/name/web", 503, ""},
		{"GET", "/v1/catalog/service/web?dc=dc2", 500, "No path to datacenter"},
		{"GET", "/v1/catalog/service/web?index=x", 400, "Invalid index"},
		{"GET", "/v1/catalog/service/web?wait=x", 400, "Invalid wait time"},
		{"GET", "/v1/catalog/service/web?stale&consistent", 400, "exclude"},
		{"GET", "/v1/catalog/service/web?filter=%28%28", 400, "expression"},
		{"GET", "/v1/catalog/service/web?filter=Absent%3D%3D1", 400, "Failed to filter"},
		{"GET", "/v1/catalog/service/web?filter=" + strings.Repeat("(", 9000), 400, "limit"},
		{"GET", "/v1/catalog/service/web?node-meta=x", 400, "key:value"},
		{"GET", "/v1/health/state/absent", 400, "not a status"},
		{"PUT", "/v1/kv/a", 501, "writes are not part of this API: use nomad var put"},
		{"DELETE", "/v1/kv/a", 501, "nomad var purge"},
		{"PUT", "/v1/agent/service/register", 501, "PUT /v1/agent/service/register: writes are not part of this API: use nomad job run"},
		{"PUT", "/v1/agent/service/deregister/x", 501, "nomad job stop"},
		{"PUT", "/v1/catalog/register", 501, "nomad job run"},
		{"PUT", "/v1/session/create", 501, "nomad var lock"},
		{"PUT", "/v1/acl/login", 501, "nomad acl"},
		{"GET", "/v1/acl/token/self", 501, "this read is not part of this API"},
		{"PUT", "/v1/txn", 501, "nomad var put"},
		{"GET", "/v1/connect/ca/roots", 501, "no service mesh"},
		{"POST", "/v1/catalog/services", 501, "POST /v1/catalog/services"},
		{"GET", "/v1/absent", 404, ""},
		{"GET", "/v1/jobs", 404, ""},
		{"GET", "/", 404, ""},
		{"OPTIONS", "/v1/kv/a", 405, ""},
	} {
		t.Run(c.method+" "+c.target[:min(60, len(c.target))], func(t *testing.T) {
			w := send(s, c.method, c.target)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
				t.Errorf("%d %s, want %d and %q", w.Code, w.Body, c.code, c.text)
			}
		})
	}
}

// The names of all fields are those of Consul.
func TestEntry(t *testing.T) {
	s := newServer(newRegion())
	got := get[[]map[string]any](t, s, "/v1/health/service/web?filter=Service.ID%3D%3Dw3")
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"Checks":[` +
		`{"CheckID":"serfHealth","CreateIndex":0,"Definition":{},"ModifyIndex":0,"Name":"Serf Health Status","Node":"alpha","Notes":"",` +
		`"Output":"the node is ready","ServiceID":"","ServiceName":"","ServiceTags":[],"Status":"passing","Type":""},` +
		`{"CheckID":"c1","CreateIndex":5,"Definition":{},"ModifyIndex":6,"Name":"alive","Namespace":"default","Node":"alpha","Notes":"",` +
		`"Output":"refused","ServiceID":"w3","ServiceName":"web","ServiceTags":["v2"],"Status":"critical","Type":"http"}],` +
		`"Node":{"Address":"10.0.0.1","CreateIndex":0,"Datacenter":"dc1","ID":"n1","Meta":{"rack":"r1"},"ModifyIndex":0,"Node":"alpha",` +
		`"TaggedAddresses":{"lan":"10.0.0.1","lan_ipv4":"10.0.0.1","wan":"10.0.0.1","wan_ipv4":"10.0.0.1"}},` +
		`"Service":{"Address":"192.0.2.1","Connect":{},"CreateIndex":5,"EnableTagOverride":false,"ID":"w3","Meta":{},"ModifyIndex":6,` +
		`"Namespace":"default","Port":8080,"Proxy":{},"Service":"web","TaggedAddresses":{"lan_ipv4":{"Address":"192.0.2.1","Port":8080},` +
		`"wan_ipv4":{"Address":"192.0.2.1","Port":8080}},"Tags":["v2"],"Weights":{"Passing":1,"Warning":1}}}]`
	if string(text) != want {
		t.Errorf("entry:\n%s\nwant:\n%s", text, want)
	}
}

func TestAgentMaps(t *testing.T) {
	s := newServer(newRegion())
	if got := get[map[string]map[string]any](t, s, "/v1/agent/services"); len(got) != 2 || got["w1"]["Service"] != "web" {
		t.Errorf("services of the agent: %v", got)
	}
	if got := get[map[string]map[string]any](t, s, "/v1/agent/checks"); len(got) != 1 || got["c1"]["Status"] != "critical" {
		t.Errorf("checks of the agent: %v", got)
	}
	if got := get[map[string]any](t, s, "/v1/agent/service/w1"); len(fmt.Sprint(got["ContentHash"])) != 16 {
		t.Errorf("a service of the agent: %v", got)
	}
	self := get[map[string]map[string]any](t, s, "/v1/agent/self")
	if self["Config"]["Datacenter"] != "dc1" || self["Config"]["NodeName"] != "alpha" || self["Config"]["Server"] != false {
		t.Errorf("self: %v", self)
	}
	node := get[map[string]map[string]any](t, s, "/v1/catalog/node/alpha")
	if node["Node"]["ID"] != "n1" || node["Services"]["w1"] == nil || len(node["Services"]) != 2 {
		t.Errorf("node: %v", node)
	}
	if kv := get[[]map[string]any](t, s, "/v1/kv/app/name"); kv[0]["Value"] != nil || kv[0]["ModifyIndex"] != 4.0 {
		t.Errorf("an empty key: %v", kv)
	}
}
