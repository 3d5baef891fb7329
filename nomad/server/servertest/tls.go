package servertest

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// The common names of certificates of the region "global".
const (
	ServerCert = "server.global.nomad"
	ClientCert = "client.global.nomad"
)

// WithTLS configures a server with TLS and verified names.
func WithTLS(t *testing.T, ca *testpki.CA) func(*server.Config) {
	return func(c *server.Config) {
		cfg := ca.Agent("server." + c.Region + ".nomad").Config()
		cfg.Region, cfg.Server = c.Region, true
		c.TLS = testpki.Open(t, cfg)
	}
}
