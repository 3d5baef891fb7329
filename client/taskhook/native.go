package taskhook

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxTLSFile limits a file of the client's TLS configuration.
const maxTLSFile = 1 << 20

// tlsServerName is the name that the certificate of Consul must have, since tasks reach it over a socket.
const tlsServerName = "localhost"

// nativeHook gives a task that is in the mesh without a proxy what the client library of Consul needs. What the job sets
// stays.
type nativeHook struct {
	mesh   *connect.Node
	tokens ConsulTokens
}

func newNativeHook(c Config) hook.Hook { return &nativeHook{c.Mesh, c.Tokens} }

func (*nativeHook) Name() string { return "connect_native" }

func (h *nativeHook) Prestart(_ context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	role, ok, err := meshRole(req)
	if err != nil || !ok || role.Envoy() {
		return err
	}
	if h.mesh == nil {
		return errNoMesh
	}
	if req.Dir == nil {
		return errNoDir
	}
	s := h.mesh.Agent.Settings()
	env := map[string]string{}
	if address := nativeAddress(req, s); address != "" {
		env["CONSUL_HTTP_ADDR"] = address
	}
	if id := role.Service.Identity; id != nil && h.tokens != nil {
		if token := h.tokens.Token(id.Name, "")(); token != "" {
			env["CONSUL_HTTP_TOKEN"] = token
		}
	}
	if s.ShareTLS {
		if err := shareTLS(req, s, env); err != nil {
			return setupFault(fmt.Errorf("share the TLS files of Consul: %w", err))
		}
	}
	for name := range env {
		if _, own := req.Task.Env[name]; own {
			delete(env, name)
		}
	}
	resp.Env = env
	return nil
}

// nativeAddress returns the address of Consul for a task: the socket of a group with its own network, and that of the
// client for mode host. A group without a mode has none, as in Nomad 2.0.
func nativeAddress(req *TaskPrestartRequest, s consul.Settings) string {
	group := req.Alloc.Job.TaskGroup(req.Alloc.TaskGroup)
	mode := ""
	if len(group.Networks) > 0 {
		mode = group.Networks[0].Mode
	}
	switch {
	case mode == nomad.NetworkModeBridge || strings.HasPrefix(mode, nomad.NetworkModeCNI):
		return "unix://" + req.Env.Var("NOMAD_ALLOC_DIR") + "/tmp/" + connect.HTTPSocket
	case mode != nomad.NetworkModeHost:
		return ""
	case strings.HasPrefix(s.HTTP.Address, "/"):
		return "unix://" + s.HTTP.Address
	}
	return s.HTTP.Address
}

// shareTLS copies the TLS files of the client to the secrets directory, and adds their variables.
func shareTLS(req *TaskPrestartRequest, s consul.Settings, env map[string]string) error {
	tls := s.HTTP.TLSConfig
	for _, f := range []struct{ from, to, name string }{
		{tls.CAFile, "consul_ca_file.pem", "CONSUL_CACERT"},
		{tls.CertFile, "consul_cert_file.pem", "CONSUL_CLIENT_CERT"},
		{tls.KeyFile, "consul_key_file.pem", "CONSUL_CLIENT_KEY"},
	} {
		if f.from == "" {
			continue
		}
		text, err := readLimited(f.from)
		if err == nil {
			err = req.Dir.Secrets().Replace(f.to, text, req.Dir.Secret())
		}
		if err != nil {
			return err
		}
		env[f.name] = path.Join(req.Env.Var("NOMAD_SECRETS_DIR"), f.to)
	}
	if s.HTTP.Scheme == "https" {
		env["CONSUL_HTTP_SSL"] = "true"
		env["CONSUL_HTTP_SSL_VERIFY"] = strconv.FormatBool(!tls.InsecureSkipVerify)
		env["CONSUL_TLS_SERVER_NAME"] = tlsServerName
	}
	return nil
}

// readLimited reads a file of the client's configuration.
func readLimited(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTLSFile+1))
	if err == nil && len(text) > maxTLSFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxTLSFile)
	}
	return text, err
}
