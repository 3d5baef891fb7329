package testconsul

import (
	"net/http"
)

// table returns the routes. All others are faults.
func (a *Agent) table() *http.ServeMux {
	mux := http.NewServeMux()
	reads := map[string]func(*call) (any, uint64, error){
		"/v1/catalog/datacenters":          catalogDatacenters,
		"/v1/catalog/nodes":                catalogNodes,
		"/v1/catalog/node/{name}":          catalogNode,
		"/v1/catalog/services":             catalogServices,
		"/v1/catalog/service/{name}":       catalogService,
		"/v1/health/service/{name}":        healthService,
		"/v1/health/connect/{name}":        healthConnect,
		"/v1/kv/{key...}":                  readKey,
		"/v1/acl/auth-methods":             authMethods,
		"/v1/acl/auth-method/{name}":       authMethod,
		"/v1/acl/binding-rules":            bindingRules,
		"/v1/acl/policies":                 policies,
		"/v1/acl/policy/name/{name}":       policyByName,
		"/v1/acl/roles":                    roles,
		"/v1/acl/role/name/{name}":         roleByName,
		"/v1/acl/token/self":               tokenSelf,
		"/v1/config/{kind}/{name}":         readConfig,
		"/v1/agent/connect/ca/roots":       noConnect,
		"/v1/agent/connect/ca/leaf/{name}": noConnect,
	}
	for path, fn := range reads {
		mux.HandleFunc("GET "+path, a.read(fn))
	}
	writes := map[string]func(*call) (any, error){
		"GET /v1/status/leader":                    leader,
		"GET /v1/status/peers":                     peers,
		"GET /v1/agent/members":                    agentMembers,
		"GET /v1/agent/metrics":                    agentMetrics,
		"GET /v1/operator/license":                 noLicense,
		"GET /v1/agent/self":                       agentSelf,
		"GET /v1/agent/services":                   agentServices,
		"GET /v1/agent/checks":                     agentChecks,
		"PUT /v1/agent/service/register":           registerService,
		"PUT /v1/agent/service/deregister/{id...}": deregisterService,
		"PUT /v1/agent/check/register":             registerCheck,
		"PUT /v1/agent/check/update/{id...}":       updateCheck,
		"PUT /v1/agent/check/deregister/{id...}":   deregisterCheck,
		"PUT /v1/kv/{key...}":                      writeKey,
		"DELETE /v1/kv/{key...}":                   deleteKey,
		"PUT /v1/config":                           writeConfig,
		"POST /v1/acl/logout":                      logout,
		"PUT /v1/acl/auth-method":                  writeAuthMethod,
		"PUT /v1/acl/auth-method/{name}":           writeAuthMethod,
		"DELETE /v1/acl/auth-method/{name}":        deleteAuthMethod,
		"PUT /v1/acl/binding-rule":                 writeBindingRule,
		"DELETE /v1/acl/binding-rule/{id}":         deleteBindingRule,
		"PUT /v1/acl/policy":                       writePolicy,
		"DELETE /v1/acl/policy/{id}":               deletePolicy,
		"PUT /v1/acl/role":                         writeRole,
		"DELETE /v1/acl/role/{id}":                 deleteRole,
	}
	for pattern, fn := range writes {
		mux.HandleFunc(pattern, a.write(fn))
	}
	mux.HandleFunc("POST /v1/acl/login", a.unlocked(login))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.faults.Add("unexpected call %s %s", r.Method, r.URL.Path)
		http.Error(w, "Invalid URL path: not a recognized HTTP API endpoint", http.StatusNotFound)
	})
	return mux
}

func leader(c *call) (any, error) { return c.a.addr, nil }

func peers(c *call) (any, error) { return []string{c.a.addr}, nil }

// noLicense answers as Consul CE, which has no such endpoint.
func noLicense(*call) (any, error) {
	return nil, refuse(http.StatusNotFound, "Invalid URL path: not a recognized HTTP API endpoint")
}

func noConnect(c *call) (any, uint64, error) {
	return nil, 0, refuse(http.StatusInternalServerError, "Connect must be enabled in order to use this endpoint")
}
