package testvault

import (
	"net/http"
	"strconv"
	"strings"
)

// table returns the routes. What is in none of them is for a mounted engine.
func (v *Vault) table() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sys/health", v.open(health))
	mux.HandleFunc("GET /v1/sys/seal-status", v.open(sealStatus))
	mux.HandleFunc("GET /v1/sys/license/status", v.parent(license))
	mux.HandleFunc("/v1/sys/namespaces/{name}", v.parent(child))
	mux.HandleFunc("GET /v1/sys/mounts", v.guarded(listMounts))
	mux.HandleFunc("GET /v1/sys/auth", v.guarded(listAuths))
	mux.HandleFunc("GET /v1/sys/internal/ui/mounts/{path...}", v.probe)
	for path, fn := range map[string]func(*call) (*answer, error){
		"/v1/auth/token/renew-self":  renewSelf,
		"/v1/auth/token/revoke-self": revokeSelf,
		"/v1/auth/token/create":      createToken,
		"/v1/sys/leases/renew":       renewLease,
		"/v1/sys/leases/revoke":      revokeLease,
		"/v1/sys/auth/{path...}":     enableAuth,
		"/v1/sys/mounts/{path...}":   enableMount,
		"/v1/sys/seal":               seal,
	} {
		mux.HandleFunc("PUT "+path, v.guarded(fn))
		mux.HandleFunc("POST "+path, v.guarded(fn))
	}
	mux.HandleFunc("GET /v1/auth/token/lookup-self", v.guarded(lookupSelf))
	mux.HandleFunc("GET /v1/sys/auth/{path...}", v.guarded(readAuth))
	mux.HandleFunc("DELETE /v1/sys/auth/{path...}", v.guarded(disableAuth))
	mux.HandleFunc("/v1/sys/policies/acl", v.guarded(listPolicies))
	mux.HandleFunc("/v1/sys/policies/acl/{name}", v.guarded(policy))
	mux.HandleFunc("/v1/sys/", v.unknown)
	mux.HandleFunc("/v1/auth/{path...}", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/login") {
			v.open(login)(w, r)
			return
		}
		v.guarded(authPath)(w, r)
	})
	mux.HandleFunc("/v1/{path...}", v.guarded(engine))
	mux.HandleFunc("/", v.unknown)
	return mux
}

// unknown answers a call of a path that does not exist.
func (v *Vault) unknown(w http.ResponseWriter, r *http.Request) {
	v.faults.Add("unexpected call %s %s", r.Method, r.URL.Path)
	write(w, nil, refuse(http.StatusNotFound, "unsupported path"))
}

func health(c *call) (*answer, error) {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	status := http.StatusOK
	if c.v.sealed {
		status = http.StatusServiceUnavailable
		if n, err := strconv.Atoi(c.URL.Query().Get("sealedcode")); err == nil {
			status = n
		}
	}
	return &answer{status: status, plain: map[string]any{"initialized": true, "sealed": c.v.sealed, "standby": false,
		"performance_standby": false, "replication_performance_mode": "disabled", "replication_dr_mode": "disabled",
		"server_time_utc": c.v.now().Unix(), "version": c.v.cfg.Version, "cluster_name": clusterName, "cluster_id": clusterID}}, nil
}

// The identity of the cluster. A sealed one does not know it.
const (
	clusterName = "vault-cluster-5f8c9a3e"
	clusterID   = "1d2b4c6a-9e7f-40a1-b2c3-d4e5f60718a9"
)

func sealStatus(c *call) (*answer, error) {
	c.v.mu.Lock()
	defer c.v.mu.Unlock()
	out := map[string]any{"type": "shamir", "initialized": true, "sealed": c.v.sealed, "t": 1, "n": 1, "progress": 0, "nonce": "",
		"version": c.v.cfg.Version, "build_date": "2025-11-18T13:04:32Z", "migration": false, "recovery_seal": false, "storage_type": "inmem"}
	if !c.v.sealed {
		out["cluster_name"], out["cluster_id"] = clusterName, clusterID
	}
	return &answer{plain: out}, nil
}

func seal(c *call) (*answer, error) {
	if err := c.empty(); err != nil {
		return nil, err
	}
	c.v.sealed = true
	return nil, nil
}

// probe serves the description of the mount of a path. Who may use something of the mount may read it.
func (v *Vault) probe(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.call(r)
	if err := c.identify(v.cfg.Namespace); err != nil {
		write(w, nil, err)
		return
	}
	at, m := v.mountOf(r.PathValue("path"))
	if m == nil || !v.mayUse(c.who, at) {
		c.fault("preflight capability check returned 403")
		write(w, nil, refuse(http.StatusForbidden, "preflight capability check returned 403, please ensure client's policies grant access to path %q", at))
		return
	}
	write(w, &answer{Data: map[string]any{"path": at, "type": m.kind, "options": m.options(), "accessor": m.accessor, "local": false}}, nil)
}
