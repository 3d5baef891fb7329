package config

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	fingerprinter "github.com/open-nomad/open-nomad/client/fingerprint/consul"
	"github.com/open-nomad/open-nomad/internal/consul"
	mode "github.com/open-nomad/open-nomad/nomad/consul"
)

// Consul is a consul block. Blocks with the same name are merged. On a client, this version detects
// the agent of Consul and does no more: auto_advertise and the keys for discovery have no effect. On a server, the block
// sets the default of consulServices.
type Consul struct {
	Name                         string        `hcl:"name" default:"default"`
	ServerServiceName            string        `hcl:"server_service_name" default:"nomad" later:"registration in Consul"`
	ServerHTTPCheckName          string        `hcl:"server_http_check_name" default:"Nomad Server HTTP Check" later:"registration in Consul"`
	ServerSerfCheckName          string        `hcl:"server_serf_check_name" default:"Nomad Server Serf Check" later:"registration in Consul"`
	ServerRPCCheckName           string        `hcl:"server_rpc_check_name" default:"Nomad Server RPC Check" later:"registration in Consul"`
	ServerFailuresBeforeCritical int           `hcl:"server_failures_before_critical" later:"registration in Consul"`
	ServerFailuresBeforeWarning  int           `hcl:"server_failures_before_warning" later:"registration in Consul"`
	ClientServiceName            string        `hcl:"client_service_name" default:"nomad-client" later:"registration in Consul"`
	ClientHTTPCheckName          string        `hcl:"client_http_check_name" default:"Nomad Client HTTP Check" later:"registration in Consul"`
	ClientFailuresBeforeCritical int           `hcl:"client_failures_before_critical" later:"registration in Consul"`
	ClientFailuresBeforeWarning  int           `hcl:"client_failures_before_warning" later:"registration in Consul"`
	Tags                         []string      `hcl:"tags" later:"registration in Consul"`
	AutoAdvertise                bool          `hcl:"auto_advertise" default:"true"`
	ChecksUseAdvertise           bool          `hcl:"checks_use_advertise" later:"registration in Consul"`
	Address                      string        `hcl:"address"`
	GRPCAddress                  string        `hcl:"grpc_address" later:"the service mesh of Consul"`
	Timeout                      time.Duration `hcl:"timeout" default:"5s"`
	Token                        string        `hcl:"token"`
	Auth                         string        `hcl:"auth"`
	SSL                          bool          `hcl:"ssl"`
	ShareSSL                     bool          `hcl:"share_ssl" later:"the service mesh of Consul"`
	VerifySSL                    bool          `hcl:"verify_ssl" default:"true"`
	GRPCCAFile                   string        `hcl:"grpc_ca_file" later:"the service mesh of Consul"`
	CAFile                       string        `hcl:"ca_file"`
	CertFile                     string        `hcl:"cert_file"`
	KeyFile                      string        `hcl:"key_file"`
	ServerAutoJoin               bool          `hcl:"server_auto_join" default:"true"`
	ClientAutoJoin               bool          `hcl:"client_auto_join" default:"true"`
	Namespace                    string        `hcl:"namespace" later:"namespaces of Consul (Consul Enterprise)"`
	ServiceIdentity              Identity      `hcl:"service_identity" later:"identities of workloads for Consul"`
	ServiceAuthMethod            string        `hcl:"service_auth_method" default:"nomad-workloads" later:"identities of workloads for Consul"`
	TaskIdentity                 Identity      `hcl:"task_identity" later:"identities of workloads for Consul"`
	TaskAuthMethod               string        `hcl:"task_auth_method" default:"nomad-workloads" later:"identities of workloads for Consul"`
}

// maxClusterName limits the name of a cluster.
const maxClusterName = 128

// checkConsul checks the consul blocks, and whether their TLS files exist.
func (s *Settings) checkConsul() error {
	var errs []error
	for _, c := range s.Consul {
		wrong := func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}
		if c.Name == "" || len(c.Name) > maxClusterName || strings.ContainsFunc(c.Name, wrong) {
			errs = append(errs, s.Fault("consul.name", "invalid name %q: it must have 1 to %d of the characters a-z, A-Z, 0-9, - and _",
				c.Name, maxClusterName))
		}
		if c.Timeout <= 0 {
			errs = append(errs, s.Fault("consul.timeout", "must be above 0"))
		}
		if _, err := c.agent(); err != nil && !s.otherMachine {
			errs = append(errs, s.Fault("consul", "%v", err))
		}
	}
	return errors.Join(errs...)
}

// consulAgents returns the agents of Consul that the client detects.
func (s *Settings) consulAgents() (out []*consul.Agent, err error) {
	lists := fingerprint.Config{Allow: s.allowedFingerprinters(), Deny: s.deniedFingerprinters()}
	if !lists.Allows(fingerprinter.Fingerprinter) {
		return nil, nil
	}
	for _, c := range s.Consul {
		a, err := c.agent()
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
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

// agent returns the agent of a block. The environment has the values that the block does not set.
func (c *Consul) agent() (*consul.Agent, error) {
	cfg := api.DefaultConfigWithLogger(hclog.NewNullLogger())
	address, err := resolved(c.Address, func(word string) (string, error) { return word, nil }, false)
	if err != nil {
		return nil, err
	}
	cfg.Address = cmp.Or(address, cfg.Address)
	cfg.Token = cmp.Or(c.Token, os.Getenv("CONSUL_HTTP_TOKEN_"+c.Name), cfg.Token)
	if c.Token != "" {
		cfg.TokenFile = "" // it would replace the token
	}
	if user, password, _ := strings.Cut(c.Auth, ":"); c.Auth != "" {
		cfg.HttpAuth = &api.HttpBasicAuth{Username: user, Password: password}
	}
	if c.SSL {
		cfg.Scheme = "https"
	}
	t := &cfg.TLSConfig
	t.InsecureSkipVerify = t.InsecureSkipVerify || !c.VerifySSL
	t.CAFile, t.CertFile, t.KeyFile = cmp.Or(c.CAFile, t.CAFile), cmp.Or(c.CertFile, t.CertFile), cmp.Or(c.KeyFile, t.KeyFile)
	return consul.New(consul.Settings{Name: c.Name, HTTP: *cfg, Timeout: c.Timeout})
}

// nodeMeta returns the static metadata of the node. A node with Consul has more, unless the configuration sets them.
func (s *Settings) nodeMeta(agents []*consul.Agent) map[string]string {
	if len(agents) == 0 {
		return s.Client.Meta
	}
	out := maps.Clone(fingerprinter.MetaDefaults)
	maps.Copy(out, s.Client.Meta)
	return out
}
