package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

// TestScopeOfBody checks that a write is refused if its query and its body name different namespaces, regions or nodes.
// Otherwise it would silently change an object that the caller did not mean.
func TestScopeOfBody(t *testing.T) {
	s := changed(newTestServer(t, 0), func(c *Config) { c.Agent = idle{} })
	const id = "8a1f4c9e-0f0b-4a51-9d8e-0d9a4d3c2b1a"
	for _, route := range []string{"PUT /v1/jobs/stop", "PUT /v1/job/web/evaluate", "PUT /v1/job/web/dispatch", "PUT /v1/job/web/revert",
		"PUT /v1/job/web/stable", "PUT /v1/volume/host/create", "PUT /v1/volume/host/register", "PUT /v1/deployment/pause/" + id,
		"PUT /v1/deployment/unblock/" + id, "PUT /v1/deployment/promote/" + id, "PUT /v1/deployment/allocation-health/" + id,
		"PUT /v1/allocation/" + id + "/move", "DELETE /v1/evaluations"} {
		method, path, _ := strings.Cut(route, " ")
		for _, tt := range []struct{ query, body, want string }{
			{"?namespace=a", `{"Namespace":"b"}`, `namespace "b" of the body does not match namespace "a" of the query`},
			{"?region=a", `{"Region":"b"}`, `region "b" of the body does not match region "a" of the query`},
			{"?namespace=a", `{"Namespace":"a"}`, ""},
			{"?namespace=a", `{}`, ""},
			{"", `{"Namespace":"b"}`, ""},
		} {
			w := do(s, method, path+tt.query, tt.body)
			refused := w.Code == http.StatusBadRequest && strings.Contains(w.Body.String(), "does not match")
			if refused != (tt.want != "") || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s%s %s = %d %s, want %q", route, tt.query, tt.body, w.Code, w.Body, tt.want)
			}
		}
	}
	if w := do(s, "PUT", "/v1/search/fuzzy?namespace=a", `{"Text":"web","Namespace":"*"}`); strings.Contains(w.Body.String(),
		"does not match") {
		t.Errorf("a search with two namespaces = %d %s, want that of the query", w.Code, w.Body)
	}
	for _, route := range []string{"POST /v1/client/metadata", "PUT /v1/client/identity/renew"} {
		method, path, _ := strings.Cut(route, " ")
		if w := do(s, method, path+"?node_id="+id, `{"NodeID":"other"}`); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), "Node ID does not match") {
			t.Errorf("%s with two nodes = %d %s, want 400", route, w.Code, w.Body)
		}
	}
}
