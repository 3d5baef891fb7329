package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	fingerprinter "github.com/open-nomad/open-nomad/client/fingerprint/consul"
	"github.com/open-nomad/open-nomad/internal/consul"
	mode "github.com/open-nomad/open-nomad/nomad/consul"
)

// ConsulSettings returns the settings of the connections to Consul, in the order of the blocks.
func (s *Settings) ConsulSettings() (out []consul.Settings, err error) {
	for _, c := range s.Consul {
		set, err := s.consulSettings(c)
		if err != nil {
			return nil, fmt.Errorf("consul %q: %w", c.Name, err)
		}
		out = append(out, set)
	}
	return out, nil
}

// consulSettings returns the settings of a block. The environment has the values that the block does not set.
func (s *Settings) consulSettings(c *Consul) (consul.Settings, error) {
	cfg := api.DefaultConfigWithLogger(hclog.NewNullLogger())
	address, err := consulAddress(c.Address)
	if err != nil {
		return consul.Settings{}, err
	}
	grpc, err := consulAddress(c.GRPCAddress)
	if err != nil {
		return consul.Settings{}, err
	}
	cfg.Address = cmp.Or(address, cfg.Address)
	cfg.Namespace = cmp.Or(c.Namespace, cfg.Namespace)
	cfg.Token = cmp.Or(c.Token, os.Getenv("CONSUL_HTTP_TOKEN_"+c.Name), cfg.Token)
	if c.Token != "" {
		cfg.TokenFile = "" // it would replace the token
	}
	if user, password, _ := strings.Cut(c.Auth, ":"); c.Auth != "" {
		cfg.HttpAuth = &api.HttpBasicAuth{Username: user, Password: password}
	}
	t := &cfg.TLSConfig
	switch {
	case c.SSL:
		cfg.Scheme = "https"
	case s.setsConsul("ssl"):
		cfg.Scheme = "http"
	}
	if !c.VerifySSL || s.setsConsul("verify_ssl") {
		t.InsecureSkipVerify = !c.VerifySSL
	}
	t.CAFile, t.CertFile, t.KeyFile = cmp.Or(c.CAFile, t.CAFile), cmp.Or(c.CertFile, t.CertFile), cmp.Or(c.KeyFile, t.KeyFile)
	return consul.Settings{Name: c.Name, HTTP: *cfg, Timeout: c.Timeout, GRPCAddress: grpc, GRPCCAFile: c.GRPCCAFile, ShareTLS: c.ShareSSL}, nil
}

// setsConsul reports whether a file or a flag sets a key of the only consul block. With several blocks, only values that
// are not the default count as set.
func (s *Settings) setsConsul(key string) bool {
	_, ok := s.set["consul."+key]
	return ok && len(s.Consul) == 1
}

// consulAddress evaluates the template in an address of Consul, and writes IPv6 addresses in their canonical form.
func consulAddress(text string) (string, error) {
	text, err := resolved(text, asIs, false)
	if err != nil {
		return "", err
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	}
	switch scheme {
	case "unix":
		return text, nil
	case "", "http", "https":
	default:
		return "", fmt.Errorf("unknown scheme %q: use host:port, http://, https:// or unix://", scheme)
	}
	if strings.Contains(rest, "@") {
		return "", errors.New("the address contains a user: use auth for the user and the password")
	}
	if strings.ContainsAny(rest, " ?#") {
		return "", fmt.Errorf("%q is not an address: use host:port", rest)
	}
	if rest = canonicalHost(rest); scheme != "" {
		rest = scheme + "://" + rest
	}
	return rest, nil
}

// canonicalHost returns an IPv6 address with or without a port in its canonical form, and other text as it is.
func canonicalHost(text string) string {
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && ip.Is6() {
		return "[" + ip.String() + "]"
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil {
			return net.JoinHostPort(ip.String(), port)
		}
	}
	return text
}

// DetectsConsul reports whether the client detects and uses Consul.
func (s *Settings) DetectsConsul() bool {
	lists := fingerprint.Config{Allow: s.allowedFingerprinters(), Deny: s.deniedFingerprinters()}
	return len(s.Consul) > 0 && lists.Allows(fingerprinter.Fingerprinter)
}

// clientConsul returns what the client has of Consul, without the connections that the agent makes.
func (s *Settings) clientConsul() client.Consul {
	c := s.DefaultConsul()
	if c == nil || !s.DetectsConsul() {
		return client.Consul{}
	}
	return client.Consul{ServiceAuthMethod: c.ServiceAuthMethod, TaskAuthMethod: c.TaskAuthMethod}
}

// nodeMeta returns the static metadata of the node. A node with Consul has more, unless the configuration sets them.
func (s *Settings) nodeMeta() map[string]string {
	if !s.DetectsConsul() {
		return s.Client.Meta
	}
	out := maps.Clone(fingerprinter.MetaDefaults)
	maps.Copy(out, s.Client.Meta)
	return out
}

// consulServices returns what the servers do with services of provider "consul". With a consul block, they are for Consul
// unless the operator has decided otherwise.
func (s *Settings) consulServices() mode.Mode {
	set := mode.Mode(s.Server.Services.Consul)
	if set == "" && len(s.Consul) > 0 {
		return mode.Consul
	}
	return set
}
