package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	nomad "github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/consul"
)

// consulTimeout limits a request to Consul.
const consulTimeout = 10 * time.Second

// consulFlags are the flags for the agent of Consul. The environment has the values that are not set.
type consulFlags struct {
	address, auth, token, tokenFile       string
	caCert, caPath, clientCert, clientKey string
}

func (c *consulFlags) declare(f *term.Flags) {
	f.StringVar(&c.address, "consul-http-addr", "", "Also capture the agent of Consul at this `address`. Overrides CONSUL_HTTP_ADDR.")
	f.StringVar(&c.token, "consul-token", "", "The `token` for Consul. It needs agent:read and node:read. Overrides CONSUL_HTTP_TOKEN.")
	f.StringVar(&c.tokenFile, "consul-token-file", "", "A `file` with the token for Consul. Overrides CONSUL_HTTP_TOKEN_FILE.")
	f.StringVar(&c.auth, "consul-auth", "", "The `user:password` for Consul. Overrides CONSUL_HTTP_AUTH.")
	f.StringVar(&c.caCert, "consul-ca-cert", "", "A PEM `file` with the CA of Consul's certificate. Overrides CONSUL_CACERT.")
	f.StringVar(&c.caPath, "consul-ca-path", "", "A `directory` of PEM CA files. Overrides CONSUL_CAPATH.")
	f.StringVar(&c.clientCert, "consul-client-cert", "", "A PEM `file` with the certificate for Consul. Overrides CONSUL_CLIENT_CERT.")
	f.StringVar(&c.clientKey, "consul-client-key", "", "A PEM `file` with the key of that certificate. Overrides CONSUL_CLIENT_KEY.")
}

// agent returns the agent of Consul, nil if no address is set. An address that an agent of the cluster reports is not used:
// it would get the caller's token for Consul.
func (c *consulFlags) agent() (*consul.Agent, error) {
	if c.address == "" && os.Getenv(api.HTTPAddrEnvName) == "" {
		return nil, nil
	}
	cfg := api.DefaultConfigWithLogger(hclog.NewNullLogger())
	cfg.Address = cmp.Or(c.address, cfg.Address)
	switch { // the library prefers a file
	case c.tokenFile != "":
		cfg.Token, cfg.TokenFile = "", c.tokenFile
	case c.token != "":
		cfg.Token, cfg.TokenFile = c.token, ""
	}
	if user, password, _ := strings.Cut(c.auth, ":"); c.auth != "" {
		cfg.HttpAuth = &api.HttpBasicAuth{Username: user, Password: password}
	}
	t := &cfg.TLSConfig
	t.CAFile, t.CAPath = cmp.Or(c.caCert, t.CAFile), cmp.Or(c.caPath, t.CAPath)
	t.CertFile, t.KeyFile = cmp.Or(c.clientCert, t.CertFile), cmp.Or(c.clientKey, t.KeyFile)
	a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: *cfg, Timeout: consulTimeout})
	if err != nil {
		return nil, fmt.Errorf("Error in the flags or the environment of Consul: %w", err)
	}
	return a, nil
}

// secrets returns the secrets of the caller for Consul, also those in the environment of a capture without Consul.
func (c *consulFlags) secrets() []string {
	cfg := api.DefaultConfigWithLogger(hclog.NewNullLogger())
	_, password, _ := strings.Cut(c.auth, ":")
	out := []string{c.token, password, cfg.Token}
	if cfg.HttpAuth != nil {
		out = append(out, cfg.HttpAuth.Password)
	}
	if file := cmp.Or(c.tokenFile, cfg.TokenFile); file != "" {
		text, err := os.ReadFile(file)
		if err == nil { // else consul.New has reported it, or the file is not used
			out = append(out, strings.TrimSpace(string(text)))
		}
	}
	return out
}

// consulFiles are the files of nomad/NNNN/ with their routes of Consul.
var consulFiles = map[string]string{
	"consul-agent-self.json": "/v1/agent/self", "consul-agent-members.json": "/v1/agent/members",
	"consul-agent-metrics.json": "/v1/agent/metrics", "consul-leader.json": "/v1/status/leader", "consul-peers.json": "/v1/status/peers",
}

// readConsul captures the agent of Consul once. Without an answer to a request, it does not send the others.
func (p *capture) readConsul(ctx context.Context, n int) {
	for _, name := range slices.Sorted(maps.Keys(consulFiles)) {
		file := fmt.Sprintf("nomad/%04d/%s", n, name)
		text, err := p.queryConsul(ctx, consulFiles[name])
		if err != nil {
			p.done(ctx, file, err)
			if statusOf(err) == 0 {
				return
			}
			continue
		}
		if name == "consul-agent-self.json" {
			text, err = knownOfSelf(text)
		}
		if err == nil {
			err = p.dir.json(file, bytes.NewReader(text))
		}
		p.done(ctx, file, err)
	}
}

func (p *capture) queryConsul(ctx context.Context, route string) (text json.RawMessage, err error) {
	ctx, cancel := p.consulAgent.Within(ctx)
	defer cancel()
	_, err = p.consulAgent.Client().Raw().Query(route, &text, (&api.QueryOptions{}).WithContext(ctx))
	return text, newConsulError(err)
}

// knownSelf are the fields of the description of Consul's agent that a bundle has. A description has the complete
// configuration, with tokens, keys and checks, and newer versions may add more. nil means all fields.
var knownSelf = map[string][]string{
	"Config": {"Datacenter", "PrimaryDatacenter", "NodeName", "NodeID", "Revision", "Server", "Version", "BuildDate"},
	"DebugConfig": {"ACLsEnabled", "AutoReloadConfig", "Bootstrap", "BootstrapExpect", "ConnectEnabled", "DNSPort",
		"DefaultQueryTime", "DevMode", "GRPCPort", "GRPCTLSPort", "HTTPPort", "HTTPSPort", "LeaveOnTerm", "MaxQueryTime", "PeeringEnabled",
		"SerfPortLAN", "SerfPortWAN", "ServerMode", "ServerPort", "TranslateWANAddrs"},
	"Member": {"Name", "Addr", "Port", "Status", "Tags", "ProtocolCur", "ProtocolMin", "ProtocolMax"},
	"Coord":  nil, "Stats": nil, "xDS": nil,
}

// knownOfSelf returns a description of Consul's agent with the fields of knownSelf. What is in Config there has another
// name, because the scrubber removes everything that is called Config.
func knownOfSelf(text []byte) ([]byte, error) {
	var self map[string]json.RawMessage
	if err := json.Unmarshal(text, &self); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for part, fields := range knownSelf {
		var in map[string]json.RawMessage
		if err := json.Unmarshal(self[part], &in); err != nil {
			continue // another version has it in another form, or not at all
		}
		if fields != nil {
			maps.DeleteFunc(in, func(name string, _ json.RawMessage) bool { return !slices.Contains(fields, name) })
		}
		if part == "Config" {
			part = "Agent"
		}
		out[part] = in
	}
	return jsonOf(out)
}

// systemError is the error of a request to Consul or Vault without the body of the answer, which could contain a token.
type systemError struct {
	status int // 0: no answer
	error
}

// newConsulError returns nil for nil.
func newConsulError(err error) error {
	if err == nil {
		return nil
	}
	var status api.StatusError
	if errors.As(err, &status) {
		return &systemError{status.Code, consul.Redact(err)}
	}
	return &systemError{0, consul.Redact(err)}
}

// statusOf returns the status of an answer of an agent, Consul or Vault, 0 if err is another error.
func statusOf(err error) int {
	var of *systemError
	if errors.As(err, &of) {
		return of.status
	}
	return nomad.StatusCode(err)
}
