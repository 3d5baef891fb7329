package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The roles of agents, and the domain of their names.
const (
	roleServer = "server"
	roleClient = "client"
	domain     = "nomad"
)

func serverName(region string) string { return roleServer + "." + region + "." + domain }
func clientName(region string) string { return roleClient + "." + region + "." + domain }

// Peer is the identity of the other side of a connection, by its certificate.
type Peer struct {
	names    []string  // DNS names, then the common name
	dns      []string  // DNS names only
	ends     time.Time // expiry of the certificate
	verified bool      // the handshake verified the chain
}

// newPeer returns the peer of a TLS connection that showed a certificate.
func newPeer(state *tls.ConnectionState) *Peer {
	leaf := state.PeerCertificates[0]
	return &Peer{names: namesOf(leaf), dns: leaf.DNSNames, ends: leaf.NotAfter, verified: len(state.VerifiedChains) > 0}
}

// namesOf returns the DNS names of a certificate, then its common name.
func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	if cn := leaf.Subject.CommonName; cn != "" {
		names = append(names, cn)
	}
	return names
}

// Has reports whether the certificate has exactly this name.
func (p *Peer) Has(name string) bool { return slices.Contains(p.names, name) }

// ServesAny reports whether the certificate is that of a server of any region.
func (p *Peer) ServesAny() bool {
	return slices.ContainsFunc(p.names, func(name string) bool { return role(name) == roleServer })
}

// Name returns the first name with a role, else the first name.
func (p *Peer) Name() string {
	for _, name := range p.names {
		if role(name) != "" {
			return name
		}
	}
	if len(p.names) == 0 {
		return ""
	}
	return p.names[0]
}

// role returns the role in a name, or "".
func role(name string) string {
	labels := strings.Split(name, ".")
	if len(labels) < 3 || labels[len(labels)-1] != domain {
		return ""
	}
	if labels[0] == roleServer || labels[0] == roleClient {
		return labels[0]
	}
	return ""
}

// role refuses callers without a role in this region: clients of other regions, and certificates
// without a role. Servers of any region may forward.
func (m *material) role(state *tls.ConnectionState) error {
	if !m.cfg.VerifyServerHostname {
		return nil
	}
	peer := newPeer(state)
	for _, name := range peer.names {
		if role(name) == roleServer || name == clientName(m.cfg.Region) {
			return nil
		}
	}
	return fmt.Errorf("%w of %q: invalid role or region for certificate", ErrPeer, peer.Name())
}

// IsServer refuses every peer except a server of this region. It checks nothing without
// verify_server_hostname, or without TLS in upgrade mode.
func (s *Store) IsServer(p *Peer) error {
	region := s.material().cfg.Region
	return s.named(p, serverName(region))
}

// IsAgent refuses every peer except a server or client of this region, under the same conditions as
// IsServer.
func (s *Store) IsAgent(p *Peer) error {
	region := s.material().cfg.Region
	return s.named(p, clientName(region), serverName(region))
}

// IsRaft is IsServer for a Raft connection; in upgrade mode it checks nothing.
func (s *Store) IsRaft(p *Peer) error {
	if s.Upgrading() {
		return nil
	}
	return s.IsServer(p)
}

// ProvesServer returns an error unless the certificate of the peer alone proves that it is a server
// of this region. The handshake of the connection verified it, it has not expired, and it has the DNS
// name of a server of the region. This does not depend on verify_server_hostname or upgrade mode.
func (s *Store) ProvesServer(p *Peer, now time.Time) error {
	cfg := &s.material().cfg
	name := serverName(cfg.Region)
	switch {
	case !cfg.RPC:
		return fmt.Errorf("%w of a server is needed, but this server has tls.rpc off", ErrPeer)
	case p == nil:
		return fmt.Errorf("%w for %s is needed, but the connection has no TLS", ErrPeer, name)
	case !p.verified:
		return fmt.Errorf("%w for %s is needed, but that of %q was not verified", ErrPeer, name, p.Name())
	case now.After(p.ends):
		return fmt.Errorf("%w for %s is needed, but that of %q expired at %s", ErrPeer, name, p.Name(), p.ends.UTC().Format(time.RFC3339))
	case !slices.Contains(p.dns, name):
		return fmt.Errorf("%w for %s is needed, but that of the caller is for %q", ErrPeer, name, p.Name())
	}
	return nil
}

// named refuses a peer that has none of the names.
func (s *Store) named(p *Peer, names ...string) error {
	cfg := &s.material().cfg
	switch {
	case !cfg.RPC || !cfg.VerifyServerHostname:
		return nil
	case p == nil && cfg.UpgradeMode:
		return nil
	case p == nil:
		return fmt.Errorf("%w: the peer sent none, %s is needed", ErrPeer, strings.Join(names, " or "))
	case slices.ContainsFunc(names, p.Has):
		return nil
	}
	return fmt.Errorf("%w of %q: %s is needed", ErrPeer, p.Name(), strings.Join(names, " or "))
}
