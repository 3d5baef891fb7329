package consulapi

import (
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// methodsNotServed are the methods of writes.
const methodsNotServed = "PUT POST DELETE PATCH"

// served are the reads, and what replaces the writes of the same paths.
var served = []struct {
	path    string
	fetch   reader
	waits   bool   // with the parameter index, as in Consul
	instead string // of a write
}{
	{"/v1/catalog/datacenters", datacenters, false, ""},
	{"/v1/catalog/services", catalogServices, true, ""},
	{"/v1/catalog/service/:name", catalogServiceByName, true, "nomad job run with a service block"},
	{"/v1/catalog/connect/:name", none, true, ""},
	{"/v1/catalog/nodes", catalogNodes, true, ""},
	{"/v1/catalog/node/:node", catalogNodeByName, true, ""},
	{"/v1/catalog/node-services/:node", catalogNodeServices, true, ""},
	{"/v1/health/service/:name", healthService, true, ""},
	{"/v1/health/connect/:name", none, true, ""},
	{"/v1/health/checks/:service", healthChecks, true, ""},
	{"/v1/health/state/:state", healthState, true, ""},
	{"/v1/health/node/:node", healthNode, true, ""},
	{"/v1/agent/self", agentSelf, false, ""},
	{"/v1/agent/members", agentMembers, false, ""},
	{"/v1/agent/services", agentServices, false, ""},
	{"/v1/agent/service/:id", agentService, false, "nomad job run with a service block"},
	{"/v1/agent/checks", agentChecks, false, ""},
	{"/v1/agent/health/service/name/:name", agentHealthByName, false, ""},
	{"/v1/agent/health/service/id/:id", agentHealthByID, false, ""},
	{"/v1/kv", kv, true, "nomad var put"},
	{"/v1/kv/", kv, true, "nomad var put"},
	{"/v1/kv/:key", kv, true, "nomad var put and nomad var purge"},
	{"/v1/status/leader", statusLeader, false, ""},
	{"/v1/status/peers", statusPeers, false, ""},
	{"/v1/coordinate/nodes", none, true, ""},
}

// notServed are other paths of Consul, with what replaces them. A path that ends with a slash includes all below it.
var notServed = []struct{ path, instead string }{
	{"/v1/acl/", "nomad acl"},
	{"/v1/agent/check/", "nomad job run with a check block"},
	{"/v1/agent/connect/", "no command: there is no service mesh"},
	{"/v1/agent/force-leave/", "nomad server force-leave"},
	{"/v1/agent/host", "nomad operator debug"},
	{"/v1/agent/join/", "nomad server join"},
	{"/v1/agent/leave", "nomad node drain"},
	{"/v1/agent/maintenance", "nomad node drain"},
	{"/v1/agent/metrics", "nomad operator metrics"},
	{"/v1/agent/monitor", "nomad monitor"},
	{"/v1/agent/reload", "a SIGHUP of the agent"},
	{"/v1/agent/service/deregister/", "nomad job stop"},
	{"/v1/agent/service/maintenance/", "nomad job stop"},
	{"/v1/agent/service/register", "nomad job run with a service block"},
	{"/v1/agent/token/", "nomad acl token"},
	{"/v1/agent/version", "nomad version"},
	{"/v1/catalog/deregister", "nomad service delete"},
	{"/v1/catalog/gateway-services/", "no command: there is no service mesh"},
	{"/v1/catalog/register", "nomad job run with a service block"},
	{"/v1/config", "no command: there is no service mesh"},
	{"/v1/config/", "no command: there is no service mesh"},
	{"/v1/connect/", "no command: there is no service mesh"},
	{"/v1/coordinate/", "no command: there are no coordinates"},
	{"/v1/discovery-chain/", "no command: there is no service mesh"},
	{"/v1/event/", "nomad operator api /v1/event/stream"},
	{"/v1/exported-services", "no command: there are no peers"},
	{"/v1/health/ingress/", "no command: there is no service mesh"},
	{"/v1/imported-services", "no command: there are no peers"},
	{"/v1/internal/", "the web UI of nomad"},
	{"/v1/namespace", "nomad namespace apply"},
	{"/v1/namespace/", "nomad namespace apply"},
	{"/v1/namespaces", "nomad namespace list"},
	{"/v1/operator/", "nomad operator"},
	{"/v1/partition", "nomad namespace apply"},
	{"/v1/partition/", "nomad namespace apply"},
	{"/v1/partitions", "nomad namespace list"},
	{"/v1/peering", "no command: there are no peers"},
	{"/v1/peering/", "no command: there are no peers"},
	{"/v1/peerings", "no command: there are no peers"},
	{"/v1/query", "/v1/health/service/:name with a filter"},
	{"/v1/query/", "/v1/health/service/:name with a filter"},
	{"/v1/session/", "nomad var lock"},
	{"/v1/snapshot", "nomad operator snapshot"},
	{"/v1/txn", "nomad var put"},
}

// routes returns the table of all routes.
func (s *Server) routes() []web.Route {
	var out []web.Route
	for _, r := range served {
		out = append(out, web.Route{Methods: http.MethodGet, Path: r.path, Handle: s.read(r.fetch, r.waits)},
			web.Route{Methods: methodsNotServed, Path: r.path, Handle: write(r.path, r.instead)})
	}
	for _, n := range notServed {
		if strings.HasSuffix(n.path, "/") {
			out = append(out, web.Route{Path: n.path + ":rest", Handle: refused(n.path, n.instead)})
			continue
		}
		out = append(out, web.Route{Path: n.path, Handle: refused(n.path, n.instead)})
	}
	return out
}

// write returns the handler of a write to a path with reads.
func write(path, instead string) web.Handler {
	advice := ", and this path has none"
	if instead != "" {
		advice = ": use " + instead
	}
	return func(r *web.Request) (any, error) {
		return nil, apierror.Errorf(http.StatusNotImplemented, "%s %s: writes are not part of this API%s", r.Method, path, advice)
	}
}

// refused returns the handler of a path without reads.
func refused(path, instead string) web.Handler {
	return func(r *web.Request) (any, error) {
		what := "this read is"
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			what = "writes are"
		}
		return nil, apierror.Errorf(http.StatusNotImplemented, "%s %s: %s not part of this API: use %s", r.Method, path, what, instead)
	}
}
