package agent

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/internal/version"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// askLimit is the timeout for queries of the agent to its own server or client.
const askLimit = 2 * time.Second

// Self returns the body of /v1/agent/self. Secrets in the configuration are redacted.
func (a *Agent) Self() map[string]any {
	cfg := a.set.Redacted()
	cfg["Version"] = map[string]any{"Version": version.Number, "Revision": version.Commit()}
	out := map[string]any{"config": cfg, "stats": a.stats()}
	if m := a.member(); m != nil {
		out["member"] = m
	}
	return out
}

func (a *Agent) stats() map[string]map[string]string {
	s := map[string]map[string]string{"runtime": {
		"arch": runtime.GOARCH, "version": runtime.Version(), "max_procs": fmt.Sprint(runtime.GOMAXPROCS(0)),
		"goroutines": fmt.Sprint(runtime.NumGoroutine()), "cpu_count": fmt.Sprint(runtime.NumCPU()), "kernel.name": runtime.GOOS,
	}}
	if a.client != nil {
		s["client"] = a.client.Stats()
	}
	if a.server != nil {
		maps.Copy(s, a.server.Stats())
	}
	return s
}

// leader returns the address of the leader, or "" if there is none.
func (a *Agent) leader() string {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	req := message.GenericRequest{QueryOptions: message.QueryOptions{Region: a.set.Region, AllowStale: true}}
	var addr string
	if err := a.Call(ctx, "Status.Leader", &req, &addr); err != nil {
		return ""
	}
	return addr
}

// member returns the gossip member of this server, or nil for a client.
func (a *Agent) member() *message.ServerMember {
	if a.server == nil {
		return nil
	}
	return a.server.Self()
}

// Health returns the health of each role of this agent. A role that it does not have is nil.
func (a *Agent) Health() (client, server *httpapi.Health) {
	if a.client != nil {
		client = &httpapi.Health{OK: true, Message: "ok"}
		if err := a.client.Healthy(); err != nil {
			client = &httpapi.Health{Message: err.Error()}
		}
	}
	if a.server != nil {
		server = &httpapi.Health{OK: true, Message: "ok"}
		if a.leader() == "" {
			server = &httpapi.Health{Message: apierror.ErrNoLeader.Error()}
		}
	}
	return client, server
}

// Servers returns the RPC addresses that the client uses, or nil without a client.
func (a *Agent) Servers() []string {
	switch {
	case a.client == nil:
		return nil
	case a.server != nil:
		return []string{a.server.RPCAddr()}
	}
	return append([]string{}, a.client.Remote().Addrs()...) // never nil, because there is a client
}

// SetServers replaces the servers that the client uses.
func (a *Agent) SetServers(addrs []string) error {
	if a.client == nil || a.server != nil {
		return apierror.Errorf(http.StatusBadRequest, "the client of this agent always uses the server of this agent")
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	full := make([]string, len(addrs))
	for i, addr := range addrs {
		full[i] = config.ServerAddr(addr)
		host, port, err := net.SplitHostPort(full[i])
		if err == nil {
			_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
		}
		if err == nil {
			_, err = net.DefaultResolver.LookupHost(ctx, host)
		}
		if err != nil {
			return apierror.Errorf(http.StatusBadRequest, "server address %q: %v", addr, err)
		}
	}
	a.client.Remote().Replace(full)
	return nil
}

// Schedulers returns the state of the scheduler workers, or nil without a server.
func (a *Agent) Schedulers() *httpapi.Schedulers {
	if a.server == nil {
		return nil
	}
	out := &httpapi.Schedulers{ServerID: a.server.Self().Name, Enabled: a.server.WorkerTypes(), Workers: []httpapi.SchedulerWorker{}}
	for _, w := range a.server.Workers() {
		out.Workers = append(out.Workers, httpapi.SchedulerWorker{ID: w.ID, Enabled: w.Schedulers, Status: w.Status, Workload: w.Workload,
			Started: w.Started.UTC().Format(time.RFC3339Nano)})
	}
	return out
}

// SetSchedulers changes the scheduler workers of the server.
func (a *Agent) SetSchedulers(number int, types []string) {
	if number == 0 {
		number = -1 // none: 0 is the default of a server
	}
	a.server.SetWorkers(number, types)
}

// NodeID returns the ID of the client's node, or "" without a client.
func (a *Agent) NodeID() string {
	if a.client == nil {
		return ""
	}
	return a.client.NodeID()
}

// Prometheus returns the handler of the Prometheus text format, or nil if it is disabled.
func (a *Agent) Prometheus() http.Handler { return a.tel.prom }
