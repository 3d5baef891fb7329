// Package advertise describes the services of an agent itself in Consul: its server and its client. Other agents find
// servers by them (package internal/consul/discover).
//
//	ID                 name          tag   address             checks
//	_nomad-server-…    nomad         http  advertise of HTTP   GET /v1/agent/health?type=server
//	_nomad-server-…    nomad         rpc   advertise of RPC    TCP
//	_nomad-server-…    nomad         serf  advertise of gossip TCP
//	_nomad-client-…    nomad-client  http  advertise of HTTP   GET /v1/agent/health?type=client
//
// An ID is a hash of role, tag and address, so that it is the same after a restart, and after a change of a name. The
// package makes no request and starts no goroutine.
package advertise

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
)

// The roles of an agent, which are in the IDs and the health checks.
const (
	server = "server"
	client = "client"
)

// The tags of the services, by which others find the address that they need.
const (
	TagHTTP = "http"
	TagRPC  = "rpc"
	TagSerf = "serf"
)

// maxHash is the length of the hash in an ID.
const maxHash = 52

// Times of the checks.
const (
	interval    = "10s"
	httpTimeout = "5s"
	tcpTimeout  = "3s"
)

// Address is where a port of the agent listens, and where others reach it, each as "host:port".
type Address struct{ Bind, Advertise string }

// Config describes an agent.
type Config struct {
	Block           *config.Consul
	Server, Client  bool
	HTTP, RPC, Serf Address // RPC and Serf are those of the server; without gossip, Serf is empty
	// HTTPS reports whether the API uses TLS, and ClientCerts whether it demands certificates of callers. Consul has none.
	HTTPS, ClientCerts bool
	Log                *slog.Logger
}

// Services returns the services of an agent, none without auto_advertise.
func Services(c Config) ([]*reconcile.Service, error) {
	if !c.Block.AutoAdvertise {
		return nil, nil
	}
	if c.HTTPS && c.ClientCerts {
		c.Log.Warn("the agent's own services in Consul have no check of the API: Consul has no client certificate for " +
			"tls.verify_https_client")
	}
	var out []*reconcile.Service
	for _, p := range c.ports() {
		s, err := c.service(p)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// port is a port of an agent that has a service.
type port struct {
	role, name, tag string
	at              Address
	check           *api.AgentServiceCheck // without an ID and a target; nil for none
}

// ports returns the ports of the enabled roles.
func (c *Config) ports() (out []port) {
	b := c.Block
	if c.Server {
		health := c.health(server, &api.AgentServiceCheck{Name: b.ServerHTTPCheckName,
			FailuresBeforeCritical: b.ServerFailuresBeforeCritical, FailuresBeforeWarning: b.ServerFailuresBeforeWarning})
		out = append(out, port{server, b.ServerServiceName, TagHTTP, c.HTTP, health},
			port{server, b.ServerServiceName, TagRPC, c.RPC, c.dial(b.ServerRPCCheckName, c.RPC)})
		if c.Serf.Advertise != "" {
			out = append(out, port{server, b.ServerServiceName, TagSerf, c.Serf, c.dial(b.ServerSerfCheckName, c.Serf)})
		}
	}
	if c.Client {
		health := c.health(client, &api.AgentServiceCheck{Name: b.ClientHTTPCheckName,
			FailuresBeforeCritical: b.ClientFailuresBeforeCritical, FailuresBeforeWarning: b.ClientFailuresBeforeWarning})
		out = append(out, port{client, b.ClientServiceName, TagHTTP, c.HTTP, health})
	}
	return out
}

// health adds the target of a check of the API, and returns nil if Consul cannot call it.
func (c *Config) health(role string, check *api.AgentServiceCheck) *api.AgentServiceCheck {
	scheme := "http"
	if c.HTTPS {
		scheme, check.TLSSkipVerify = "https", true
		if c.ClientCerts {
			return nil
		}
	}
	check.HTTP = scheme + "://" + c.target(c.HTTP) + "/v1/agent/health?type=" + role
	check.Interval, check.Timeout = interval, httpTimeout
	return check
}

// dial returns a TCP check.
func (c *Config) dial(name string, at Address) *api.AgentServiceCheck {
	return &api.AgentServiceCheck{Name: name, TCP: c.target(at), Interval: interval, Timeout: tcpTimeout}
}

// target returns the address that Consul checks.
func (c *Config) target(at Address) string {
	if c.Block.ChecksUseAdvertise {
		return at.Advertise
	}
	return at.Bind
}

// service returns the service of a port.
func (c *Config) service(p port) (*reconcile.Service, error) {
	host, text, err := net.SplitHostPort(p.at.Advertise)
	if err != nil {
		return nil, fmt.Errorf("advertised address of %s: %w", p.tag, err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("advertised port of %s: %w", p.tag, err)
	}
	hash := sha256.Sum256([]byte(strings.Join([]string{p.role, p.tag, p.at.Advertise}, "\x00")))
	coded := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:]))
	r := &api.AgentServiceRegistration{ID: "_nomad-" + p.role + "-" + coded[:maxHash], Name: p.name,
		Tags: append([]string{p.tag}, c.Block.Tags...), Address: host, Port: n, Meta: map[string]string{"external-source": "nomad"}}
	r.Tags = slices.Compact(r.Tags)
	if p.check != nil {
		id := sha256.Sum256([]byte(strings.Join([]string{r.ID, p.check.Name, p.check.HTTP, p.check.TCP,
			strconv.Itoa(p.check.FailuresBeforeCritical), strconv.Itoa(p.check.FailuresBeforeWarning)}, "\x00")))
		p.check.CheckID = "_nomad-check-" + hex.EncodeToString(id[:])
		r.Checks = api.AgentServiceChecks{p.check}
	}
	return &reconcile.Service{Registration: r}, nil
}
