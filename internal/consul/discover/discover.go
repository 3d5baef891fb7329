// Package discover finds servers in the catalog of Consul, by the services that they register for themselves.
//
//	datacenters, own first ──▶ instances with the tag ──▶ addresses, checked and bounded
//
// An answer of Consul is input of another system: at most MaxDatacenters datacenters are asked and MaxServers addresses
// returned, and an entry that is not an address, or the service of a job, is left out. An address gives no right: gossip
// keys and certificates of servers protect a join. The package caches nothing and starts no goroutine.
package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
)

const (
	// MaxDatacenters limits the datacenters of one search.
	MaxDatacenters = 25
	// MaxServers limits the addresses of one search.
	MaxServers = 100
	// answerWithin is how long Consul may wait for a datacenter.
	answerWithin = 2 * time.Second
	// taskPrefix begins the IDs of services of jobs. Whoever submits a job chooses their names and tags, and the agents of
	// nodes register them with their own tokens.
	taskPrefix = "_nomad-task-"
	// maxHost is the longest name of DNS.
	maxHost = 253
)

// Finder finds the instances of a service.
type Finder struct {
	Agent        *consul.Agent
	Service, Tag string
}

// NoneError means that no datacenter has an instance.
type NoneError struct {
	Service     string
	Datacenters []string
}

// Error implements error.
func (e *NoneError) Error() string {
	return fmt.Sprintf("no Nomad Servers advertising service %q in Consul datacenters: %q", e.Service, e.Datacenters)
}

// First returns the addresses in the first datacenter that has any. Each is "host:port".
func (f Finder) First(ctx context.Context) ([]string, error) { return f.find(ctx, 1) }

// All returns the addresses in all datacenters. Each is "host:port".
func (f Finder) All(ctx context.Context) ([]string, error) { return f.find(ctx, MaxServers) }

// find asks one datacenter after the other until it has enough addresses. It returns an error only if it has none.
func (f Finder) find(ctx context.Context, enough int) (out []string, err error) {
	dcs, err := f.datacenters(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the datacenters of Consul: %w", consul.Redact(err))
	}
	var errs []error
	for _, dc := range dcs {
		found, err := f.instances(ctx, dc)
		if err != nil {
			errs = append(errs, fmt.Errorf("find servers in the datacenter %q of Consul: %w", dc, consul.Redact(err)))
		}
		for _, addr := range found {
			if !slices.Contains(out, addr) {
				out = append(out, addr)
			}
		}
		if len(out) >= enough || ctx.Err() != nil {
			break
		}
	}
	if len(out) > 0 {
		return out[:min(len(out), MaxServers)], nil
	}
	return nil, errors.Join(append(errs, &NoneError{f.Service, dcs})...)
}

// datacenters returns the datacenters, the nearest first.
func (f Finder) datacenters(ctx context.Context) ([]string, error) {
	ctx, cancel := f.Agent.Within(ctx)
	defer cancel()
	// The method for this call takes no context.
	var out []string
	_, err := f.Agent.Client().Raw().Query("/v1/catalog/datacenters", &out, (&api.QueryOptions{}).WithContext(ctx))
	return out[:min(len(out), MaxDatacenters)], err
}

// instances returns the addresses in a datacenter.
func (f Finder) instances(ctx context.Context, dc string) (out []string, err error) {
	ctx, cancel := f.Agent.Within(ctx)
	defer cancel()
	q := &api.QueryOptions{Datacenter: dc, Near: "_agent", AllowStale: true, WaitTime: answerWithin}
	list, _, err := f.Agent.Client().Catalog().Service(f.Service, f.Tag, q.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if strings.HasPrefix(s.ServiceID, taskPrefix) {
			continue
		}
		host := s.ServiceAddress
		if host == "" {
			host = s.Address
		}
		if validHost(host) && s.ServicePort > 0 && s.ServicePort <= 65535 {
			out = append(out, net.JoinHostPort(host, strconv.Itoa(s.ServicePort)))
		}
	}
	return out, nil
}

// validHost reports whether others can be reached at host: an IP address, or a name of DNS.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsUnspecified() && !ip.IsMulticast()
	}
	wrong := func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	return host != "" && len(host) <= maxHost && !strings.ContainsFunc(host, wrong)
}
