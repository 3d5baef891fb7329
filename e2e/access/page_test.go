package access

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
)

// routesPage is the page with all routes. Its part after routesMark is generated.
const (
	routesPage = "../../website/content/docs/api-routes.md"
	routesMark = "\n<!-- Generated from the table of routes by: go test -tags companion ./e2e/access -run TestRoutesPage -update -->\n"
)

// TestRoutesPage compares the generated part of api-routes.md with the table of routes and the table
// of RPCs.
func TestRoutesPage(t *testing.T) {
	text, err := os.ReadFile(routesPage)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(text), routesMark)
	if !ok {
		t.Fatalf("%s: no line %q", routesPage, strings.TrimSpace(routesMark))
	}
	want := describeRoutes(t)
	switch {
	case *update:
		if err := os.WriteFile(routesPage, []byte(head+routesMark+want), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s differs from the table of routes: run go test -tags companion ./e2e/access -run TestRoutesPage -update", routesPage)
	}
	if n := strings.Count(want, "\n- "); n < 150 {
		t.Errorf("%d routes are described, at least 150 were expected", n)
	}
}

// described is one path with the methods that need the same right.
type described struct {
	path, needs string
	methods     []string
}

// describeRoutes writes a list of routes for each first segment of the paths.
func describeRoutes(t *testing.T) string {
	t.Helper()
	s := httpapi.New(httpapi.Config{Config: web.Config{Region: "global", Log: slog.New(slog.DiscardHandler)}, Debug: true, Agent: noAgent{}})
	rights := map[string]string{}
	for _, m := range endpoint.New(endpoint.Config{}).Methods() {
		rights[m.Name] = m.Rule.String()
		if text := m.Check.String(); text != "" {
			rights[m.Name] = text
		}
	}
	groups := map[string][]*described{}
	for _, row := range s.Routes() {
		method, path, _ := strings.Cut(row, " ")
		group, needs := groupOf(path), needsOf(t, s, rights, method, path)
		i := slices.IndexFunc(groups[group], func(d *described) bool { return d.path == path && d.needs == needs })
		if i < 0 {
			i = len(groups[group])
			groups[group] = append(groups[group], &described{path: path, needs: needs})
		}
		if d := groups[group][i]; !slices.Contains(d.methods, method) {
			d.methods = append(d.methods, method)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "\n## %s\n\n", name)
		slices.SortStableFunc(groups[name], func(x, y *described) int { return strings.Compare(x.path, y.path) })
		for _, d := range groups[name] {
			item := fmt.Sprintf("- %s `%s`: %s", strings.Join(d.methods, ", "), d.path, d.needs)
			b.WriteString(strings.ReplaceAll(term.Wrap(item, pageWidth-2), "\n", "\n  ") + "\n")
		}
	}
	return b.String()
}

// pageWidth is the length of the longest line of a page. TestPageLines in e2e checks all pages.
const pageWidth = 120

// groupOf returns the heading of a path: /v1/jobs and /v1/job/:id are both in /v1/job.
func groupOf(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	if parts[0] != "v1" {
		return "/" + parts[0]
	}
	name := parts[1]
	switch {
	case strings.HasSuffix(name, "ies"):
		name = strings.TrimSuffix(name, "ies") + "y"
	case strings.HasSuffix(name, "s") && name != "status" && name != "metrics":
		name = strings.TrimSuffix(name, "s")
	}
	return "/v1/" + name
}

// parameter matches a parameter of a path.
var parameter = regexp.MustCompile(`:\w+`)

// anID is a value for parameters that is valid as a name and as an ID.
const anID = "5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55"

// queries are the parameters that routes require before they check a right.
var queries = map[string]string{
	"/v1/client/fs/readat/:alloc_id": "offset=0&path=x", "/v1/client/fs/logs/:alloc_id": "task=t&type=stdout",
	"/v1/job/:job_id/submission":           "version=1",
	"/v1/client/allocation/:alloc_id/exec": "task=t",
}

// byHand describes the routes that a dry run cannot reach, and those for every caller.
var byHand = map[string]string{
	"GET /v1/acl/explain":                          "the caller's own rights; others: `management`",
	"PUT /v1/acl/explain":                          "the caller's own rights; others: `management`",
	"POST /v1/acl/explain":                         "the caller's own rights; others: `management`",
	"GET /v1/client/allocation/:alloc_id/snapshot": "the token that the servers make for a migration. Answered by the agent of the node",
	"GET /v1/job/:job_id/action":                   "a websocket: the right of `exec` on the allocation",
	"GET /":                                        "every caller", "GET /ui": "every caller", "GET /ui/": "every caller",
	"HEAD /ui/":     "every caller",
	"GET /ui/:page": "every caller", "HEAD /ui/:page": "every caller", "GET /v1/agent/health": "every caller",
	"GET /v1/operator/license": "every caller",
}

// needsOf describes what a route requires.
func needsOf(t *testing.T, s *httpapi.Server, rights map[string]string, method, path string) string {
	t.Helper()
	if text := byHand[method+" "+path]; text != "" {
		return text
	}
	query := queries[path]
	if strings.HasPrefix(path, "/v1/client/") {
		query += "&path=x&node_id=" + anID
	}
	n, err := s.Needed(web.DryRun{Method: method, Path: parameter.ReplaceAllString(path, anID) + "?" + query, Body: []byte("{}")})
	switch {
	case err != nil && apierror.HTTPStatus(err) == http.StatusNotImplemented:
		return "501, refused"
	case err != nil:
		t.Errorf("%v: add its parameters to queries", err)
	case n.Method != "" && rights[n.Method] != "":
		return fmt.Sprintf("`%s`. RPC `%s`", rights[n.Method], n.Method)
	case n.Own.Kind != "":
		return fmt.Sprintf("`%s:%s`. Checked by the agent", n.Own.Kind, n.Own.Rights)
	default:
		t.Errorf("%s %s requires no right, or an unknown RPC %q: is it in byHand?", method, path, n.Method)
	}
	return ""
}

// noAgent is not called: routes check a right first, and a dry run ends there.
type noAgent struct{ httpapi.Agent }

// NodeID implements httpapi.Agent.
func (noAgent) NodeID() string { return "" }

// Health implements httpapi.Agent.
func (noAgent) Health() (client, server *httpapi.Health) { return nil, nil }
