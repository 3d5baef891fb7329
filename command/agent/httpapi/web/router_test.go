package web_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
)

func TestMatch(t *testing.T) {
	s := httpapi.New(httpapi.Config{})
	for _, tt := range []struct {
		method, path string
		route, param string // the route's path, empty for none
		allowed      int
	}{
		{"GET", "/v1/jobs", "/v1/jobs", "", 0},
		{"DELETE", "/v1/jobs", "", "", 3},
		{"GET", "/v1/job/web", "/v1/job/:job_id", "web", 0},
		{"GET", "/v1/job/web/allocations", "/v1/job/:job_id/allocations", "web", 0},
		{"GET", "/v1/job/web%2Fdispatch-1-ab/summary", "/v1/job/:job_id/summary", "web/dispatch-1-ab", 0},
		{"GET", "/v1/job/web/dispatch-1-ab/summary", "/v1/job/:job_id/summary", "web/dispatch-1-ab", 0},
		{"PUT", "/v1/job/web/dispatch/payload", "/v1/job/:job_id/dispatch/payload", "web", 0},
		{"DELETE", "/v1/job/web/allocations", "", "", 1},
		{"GET", "/v1/deployment/allocations/5", "/v1/deployment/allocations/:id", "5", 0},
		{"GET", "/v1/client/fs/logs/abc", "/v1/client/fs/logs/:alloc_id", "abc", 0},
		{"OPTIONS", "/v1/client/fs/logs/abc", "", "", 1},
		{"GET", "/v1/nothing", "", "", 0},
		{"DELETE", "/v1/job/web/versions/good/tag", "/v1/job/:job_id/versions/:tag/tag", "web", 0},
		{"POST", "/v1/job/a/b/versions/good/tag", "/v1/job/:job_id/versions/:tag/tag", "a/b", 0},
		{"DELETE", "/v1/job/web%2Fversions%2Fgood%2Ftag", "/v1/job/:job_id", "web/versions/good/tag", 0},
		{"DELETE", "/v1/job/versions/good/tag", "/v1/job/:job_id", "versions/good/tag", 0},
		{"PATCH", "/v1/job/web/versions/good/tag", "", "", 3},
		{"DELETE", "/v1/volumes/claim/c-1", "/v1/volumes/claim/:id", "c-1", 0},
		{"DELETE", "/v1/service/web/s-1", "/v1/service/:name/:service_id", "web", 0},
		{"GET", "/v1/service/web/instances", "/v1/service/:name/instances", "web", 0},
		{"GET", "/v1/service/web", "/v1/service/:name", "web", 0},
		{"GET", "/v1/job/", "", "", 0},
		{"GET", "/v1/job/%zz", "", "", 0},
	} {
		t.Run(tt.method+tt.path, func(t *testing.T) {
			path, param, allowed := s.Match(tt.method, tt.path)
			if path != tt.route || param != tt.param || len(allowed) != tt.allowed {
				t.Errorf("Match() = %q, %q, %v, want %q, %q, %d methods", path, param, allowed, tt.route, tt.param, tt.allowed)
			}
		})
	}
}

// Every row of the table is reachable: no earlier row matches first.
func TestEveryRouteIsReachable(t *testing.T) {
	s := httpapi.New(httpapi.Config{Debug: true})
	for _, row := range s.Routes() {
		method, want, _ := strings.Cut(row, " ")
		path := want
		if before, after, ok := strings.Cut(want, ":"); ok {
			_, rest, _ := strings.Cut(after+"/", "/")
			path = strings.TrimSuffix(before+"x-1/"+rest, "/")
		}
		if got, _, _ := s.Match(method, path); got != want {
			t.Errorf("%s %s is answered by %q, want %s", method, path, got, want)
		}
	}
}
