package httpapi

import (
	"strings"
	"testing"
)

// The decoded size of a body is limited, not only its bytes: a megabyte of empty groups took
// gigabytes.
func TestBodiesThatGrow(t *testing.T) {
	const maxObjects = 100_000
	s := newTestServer(t, 32<<20)
	many := func(part string, n int) string { return strings.TrimSuffix(strings.Repeat(part+",", n), ",") }
	for name, tt := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"objects":            {`{"Job":{"ID":"a","TaskGroups":[` + many("{}", maxObjects) + `]}}`, 400, "objects and lists"},
		"lists":              {`{"Job":{"ID":"a","Meta":[` + many("[]", maxObjects) + `]}}`, 400, "objects and lists"},
		"groups":             {`{"Job":{"ID":"a","TaskGroups":[` + many("{}", maxParts+1) + `]}}`, 400, "groups and tasks"},
		"tasks":              {`{"Job":{"ID":"a","TaskGroups":[{"Tasks":[` + many("{}", maxParts) + `]}]}}`, 400, "groups and tasks"},
		"null group":         {`{"Job":{"ID":"a","TaskGroups":[null]}}`, 400, "TaskGroups.[0] is null"},
		"deep":               {`{"Job":` + strings.Repeat("[", 20000), 400, "not valid JSON"},
		"braces in a string": {`{"Job":{"ID":"a","Name":"` + strings.Repeat(`{[\"\\`, maxObjects) + `"}}`, 200, "a/default"},
		"as many as allowed": {`{"Job":{"ID":"a","TaskGroups":[` + many("{}", 50) + `]}}`, 200, "a/default"},
	} {
		if w := do(s, "PUT", "/v1/jobs", tt.body); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %d %.200q, want %d and %q", name, w.Code, w.Body, tt.status, tt.want)
		}
	}
}

// A page of another site in an operator's browser cannot write or read.
func TestOtherSitesAreRefused(t *testing.T) {
	s := newTestServer(t, 1<<10)
	for _, tt := range []struct {
		name, method, header, value string
		status                      int
	}{
		{"another site", "POST", "Sec-Fetch-Site", "cross-site", 403},
		{"another origin", "POST", "Origin", "http://evil.example", 403},
		{"an opaque origin", "PUT", "Origin", "null", 403},
		{"our own page", "POST", "Sec-Fetch-Site", "same-origin", 200},
		{"our own origin", "POST", "Origin", "http://127.0.0.1:4646", 200}, // the host that do sets
		{"no browser", "POST", "X-Nothing", "", 200},
		{"reading", "GET", "Sec-Fetch-Site", "cross-site", 403},
	} {
		body, path := `{"Job":{"ID":"a"}}`, "/v1/jobs"
		if w := do(s, tt.method, path, body, tt.header, tt.value, "Content-Type", "text/plain"); w.Code != tt.status {
			t.Errorf("%s: %d %q, want %d", tt.name, w.Code, w.Body, tt.status)
		}
	}
}
