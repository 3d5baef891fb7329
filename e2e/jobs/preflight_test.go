package jobs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A browser sends OPTIONS without a token before a page of another origin may send more than a
// plain GET. Such a request has no effect on any route, and without access control allows nothing.
func TestOptionsDoNothing(t *testing.T) {
	a := harness.DevAgent(t)
	harness.Run(t, a, harness.Job("target", `type = "batch"`, harness.SmallTask))
	al := harness.Await(t, a, "target", "running", 1)[0]
	const path = "/v1/client/allocation/"
	ask := func(method, route string) (*http.Response, string) {
		return harness.Request(t, http.MethodOptions, a.Address()+route, "", http.Header{"Origin": {"http://page.example"},
			"Access-Control-Request-Method": {method}, "Access-Control-Request-Headers": {"x-nomad-token"}})
	}
	for _, route := range []string{path + al.ID + "/restart", path + al.ID + "/signal", path + al.ID + "/gc", "/v1/client/identity/renew"} {
		for _, method := range []string{http.MethodPut, http.MethodPost} {
			if resp, body := ask(method, route); resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Methods") != "" {
				t.Errorf("OPTIONS %s before %s: %d %v %q, want 403 that allows no method", route, method, resp.StatusCode, resp.Header, body)
			}
		}
	}
	for _, route := range []string{"/v1/client/fs/ls/" + al.ID, path + al.ID + "/stats", "/v1/client/stats", "/v1/jobs", "/v1/var/a",
		"/v1/vars"} {
		resp, body := ask(http.MethodGet, route)
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "http_api_allowed_origins") ||
			resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("OPTIONS %s before GET: %d %v %q, want 403 that names http_api_allowed_origins", route, resp.StatusCode, resp.Header, body)
		}
	}
	now, _, err := a.Client.Allocations().Info(al.ID, nil)
	if err != nil || now.ClientStatus != "running" {
		t.Fatalf("the allocation is %+v, %v", now, err)
	}
	for _, ev := range now.TaskStates["t"].Events {
		if strings.Contains(ev.Type, "Restart") || strings.Contains(ev.Type, "Signal") {
			t.Errorf("the task has the event %s", ev.Type)
		}
	}
}
