package readproxy

import (
	"net/url"
	"slices"
	"strings"
)

// route is an allowed read.
type route struct {
	path  string   // with a slash at its end, a name follows
	query []string // the parameters in addition to common
	deep  bool     // the name may contain slashes, or be empty
}

// common holds the query parameters of every route.
var common = []string{"consistent", "dc", "index", "ns", "partition", "peer", "sameness-group", "stale", "wait"}

// routes are the reads of consul-template (package dependency). It also reads the name of the node from agent/self, which
// has the configuration of Consul: internal/render/engine answers this itself.
var routes = []route{
	{path: "/v1/kv/", query: []string{"keys", "recurse", "separator"}, deep: true},
	{path: "/v1/health/service/", query: []string{"near", "passing", "tag"}},
	{path: "/v1/health/connect/", query: []string{"near", "passing", "tag"}},
	{path: "/v1/catalog/service/", query: []string{"near", "tag"}},
	{path: "/v1/catalog/node/"},
	{path: "/v1/catalog/nodes", query: []string{"near"}},
	{path: "/v1/catalog/services"},
	{path: "/v1/catalog/datacenters"},
	{path: "/v1/agent/connect/ca/leaf/"},
	{path: "/v1/agent/connect/ca/roots"},
	{path: "/v1/exported-services"},
	{path: "/v1/partitions"},
	{path: "/v1/peerings"},
}

// allowed reports whether a path with these parameters is a read of consul-template.
func allowed(path string, query url.Values) bool {
	i := slices.IndexFunc(routes, func(r route) bool { return r.matches(path) })
	if i < 0 {
		return false
	}
	for name, values := range query {
		if len(values) != 1 || !slices.Contains(common, name) && !slices.Contains(routes[i].query, name) {
			return false
		}
	}
	return true
}

func (r route) matches(path string) bool {
	if !strings.HasSuffix(r.path, "/") {
		return path == r.path
	}
	name, ok := strings.CutPrefix(path, r.path)
	if !ok || !r.deep && (name == "" || strings.Contains(name, "/")) {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
