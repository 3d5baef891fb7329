package service

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// The pair that every registration has in its meta, as with Consul.
const (
	metaSource = "external-source"
	sourceName = "nomad"
)

// maxHost is the maximum size of a tagged address in bytes. It is that of a DNS name.
const maxHost = 255

// details sets what only readers of the catalog use: meta, tagged addresses, weights. Its address must be set.
func (w *Workload) details(r *catalog.Registration, s *nomad.Service) error {
	meta := s.Meta
	if w.Alloc.IsCanary() && len(s.CanaryMeta) > 0 {
		meta = s.CanaryMeta
	}
	r.Meta = w.expandedMap(meta)
	r.Meta[metaSource] = sourceName
	tagged := w.expandedMap(s.TaggedAddresses)
	for _, name := range slices.Sorted(maps.Keys(tagged)) {
		addr, err := taggedAddress(tagged[name], r.Port)
		if err != nil {
			return fmt.Errorf("service %q: tagged address %.64q: %w", r.ServiceName, name, err)
		}
		if r.TaggedAddresses == nil {
			r.TaggedAddresses = map[string]catalog.TaggedAddress{}
		}
		r.TaggedAddresses[name] = addr
	}
	if s.Weights != nil {
		r.Weights = &catalog.Weights{Passing: s.Weights.Passing, Warning: s.Weights.Warning}
	}
	r.EnableTagOverride = s.EnableTagOverride
	if err := r.CheckDeclared(); err != nil {
		return fmt.Errorf("service %q: %w", r.ServiceName, err)
	}
	return nil
}

// expandedMap interpolates keys and values. Of keys that become the same one, the last in order wins.
func (w *Workload) expandedMap(pairs map[string]string) map[string]string {
	out := make(map[string]string, len(pairs)+1)
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		out[w.Env.Expand(key)] = w.Env.Expand(pairs[key])
	}
	return out
}

// taggedAddress parses "<host>:<port>", or an IP address, which gets the port of the service.
func taggedAddress(text string, port int) (catalog.TaggedAddress, error) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.Zone() != "" {
			return catalog.TaggedAddress{}, fmt.Errorf("error parsing address %.260q: not an IP address, nor a host with a port", text)
		}
		return catalog.TaggedAddress{Address: ip.String(), Port: port}, specific(text)
	}
	if !validHost(host) {
		return catalog.TaggedAddress{}, fmt.Errorf("error parsing address %.260q: the host must be an IP address or a DNS name", text)
	}
	port, err = portNumber(number)
	if err != nil {
		return catalog.TaggedAddress{}, fmt.Errorf("error parsing address %.260q: %w", text, err)
	}
	return catalog.TaggedAddress{Address: host, Port: port}, specific(host)
}

// validHost reports whether a host is an IP address or has only characters of DNS names.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	for _, c := range []byte(host) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return host != "" && len(host) <= maxHost
}
