package httpapi

import (
	_ "embed"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
)

// upstreamRoutes lists the routes of Nomad, one "METHOD path" a line.
//
//go:embed testdata/routes.txt
var upstreamRoutes string

// upstreamTable is the table that testdata/routes.txt was made from. It is outside the repository.
const upstreamTable = "../../../../shared/compat/http.tsv"

// refusedRoutes are the routes of Nomad that this version refuses, and why.
var refusedRoutes = map[string]string{
	"PUT /v1/operator/license":  enterpriseOnly,
	"GET /v1/sentinel/policies": enterpriseOnly, "GET /v1/sentinel/policy/:": enterpriseOnly,
	"PUT /v1/sentinel/policy/:": enterpriseOnly, "DELETE /v1/sentinel/policy/:": enterpriseOnly,
	"GET /v1/recommendations": enterpriseOnly, "GET /v1/recommendation/:": enterpriseOnly,
	"PUT /v1/recommendation": enterpriseOnly, "PUT /v1/recommendations/apply": enterpriseOnly,
	"POST /v1/operator/utilization": enterpriseOnly,
}

const enterpriseOnly = "Nomad Enterprise only, also in Nomad 2.0"

// parameters matches the parameters of a path.
var parameters = regexp.MustCompile(`:\w+`)

// TestEveryRoute checks that each route of Nomad is served, or refused by name with a reason.
func TestEveryRoute(t *testing.T) {
	s := changed(newTestServer(t, 1<<10), func(c *Config) { c.Debug, c.Agent = true, idle{} })
	ours, refused := map[string]bool{}, refusing(t, s)
	for _, r := range s.Routes() {
		ours[parameters.ReplaceAllString(r, ":")] = true
	}
	named := map[string]bool{}
	for line := range strings.Lines(upstreamRoutes) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := parameters.ReplaceAllString(strings.TrimSpace(line), ":")
		named[row] = true
		reason := refusedRoutes[row]
		switch {
		case !ours[row] && !ours[wildcard(row)]:
			t.Errorf("%s: no such route", row)
		case (refused[row] || refused[wildcard(row)]) && reason == "":
			t.Errorf("%s is refused without a reason: build it, or add it to refusedRoutes", row)
		case !refused[row] && !refused[wildcard(row)] && reason != "":
			t.Errorf("%s is served: remove it from refusedRoutes", row)
		}
	}
	for row := range refusedRoutes {
		if !named[row] {
			t.Errorf("refusedRoutes has %s, which is not a route of Nomad", row)
		}
	}
}

// wildcard returns the row that serves the profiles of an agent, or row itself.
func wildcard(row string) string {
	if before, _, ok := strings.Cut(row, "/v1/agent/pprof/"); ok {
		return before + "/v1/agent/pprof/:"
	}
	return row
}

// refusing returns the routes that reply 501 to a caller with all rights.
func refusing(t *testing.T, s *Server) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, row := range append(enterpriseRoutes(), s.schedulerRoutes()...) {
		for _, method := range strings.Fields(row.Methods + " " + anyMethod(row)) {
			w := do(s, method, parameters.ReplaceAllString(row.Path, "x"), "{}")
			if w.Code != http.StatusNotImplemented {
				continue
			}
			if text := w.Body.String(); !strings.Contains(text, "not part of this version") && !strings.Contains(text, "is not supported") &&
				text != "Nomad Enterprise only endpoint" {
				t.Errorf("%s %s: %q does not name the feature", method, row.Path, text)
			}
			out[method+" "+parameters.ReplaceAllString(row.Path, ":")] = true
		}
	}
	return out
}

// anyMethod returns the methods of a route that accepts any.
func anyMethod(r web.Route) string {
	if r.Methods == "" {
		return "GET"
	}
	return ""
}

// TestRoutesOfTable checks testdata/routes.txt against the table that it was made from.
func TestRoutesOfTable(t *testing.T) {
	table, err := os.ReadFile(upstreamTable)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not on this machine", upstreamTable)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for line := range strings.Lines(string(table)) {
		methods, rest, _ := strings.Cut(line, "\t")
		path, _, _ := strings.Cut(rest, "\t")
		if strings.HasPrefix(line, "#") || methods == "method" {
			continue
		}
		path, _, _ = strings.Cut(path, " ")
		for _, m := range strings.Split(strings.TrimSuffix(methods, "(ws)"), "|") {
			want = append(want, m+" "+path)
		}
	}
	got := strings.Split(strings.TrimSpace(upstreamRoutes), "\n")[1:]
	slices.Sort(want)
	want = slices.Compact(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("testdata/routes.txt has %d rows, the table %d:\n%q\n%q", len(got), len(want), got, want)
	}
}
