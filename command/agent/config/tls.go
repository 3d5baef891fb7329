package config

import (
	"errors"
	"io/fs"
	"os"

	"github.com/open-nomad/open-nomad/internal/certs"
)

// TLS is the tls block.
type TLS struct {
	HTTP                 bool   `hcl:"http"`
	RPC                  bool   `hcl:"rpc"`
	VerifyServerHostname bool   `hcl:"verify_server_hostname"`
	CAFile               string `hcl:"ca_file"`
	CertFile             string `hcl:"cert_file"`
	KeyFile              string `hcl:"key_file"`
	RPCUpgradeMode       bool   `hcl:"rpc_upgrade_mode"`
	VerifyHTTPSClient    bool   `hcl:"verify_https_client"`
	TLSCipherSuites      string `hcl:"tls_cipher_suites"`
	TLSMinVersion        string `hcl:"tls_min_version" default:"tls12"`
}

// CertsConfig returns the configuration of the certificate store.
func (s *Settings) CertsConfig() certs.Config {
	t := &s.TLS
	return certs.Config{
		Region: s.Region, Server: s.Server.Enabled, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile,
		RPC: t.RPC, HTTP: t.HTTP, VerifyServerHostname: t.VerifyServerHostname, UpgradeMode: t.RPCUpgradeMode,
		VerifyHTTPSClient: t.VerifyHTTPSClient, CipherSuites: t.TLSCipherSuites, MinVersion: t.TLSMinVersion,
	}
}

// checkTLS reads the files of the tls block, so that errors are found before an agent starts or
// reloads.
func (s *Settings) checkTLS() error {
	var errs []error
	if s.Limits.HTTPSHandshakeTimeout < 0 {
		errs = append(errs, s.Fault("limits.https_handshake_timeout", "must not be negative"))
	}
	if s.Limits.RPCHandshakeTimeout < 0 {
		errs = append(errs, s.Fault("limits.rpc_handshake_timeout", "must not be negative"))
	}
	var wrong *certs.SettingError
	switch err := certs.Check(s.CertsConfig()); {
	case s.otherMachine && errors.Is(err, fs.ErrNotExist):
		s.missing = s.missingFiles()
	case errors.As(err, &wrong):
		errs = append(errs, s.Fault("tls."+wrong.Setting, "%v", wrong.Err))
	case err != nil:
		errs = append(errs, s.Fault("tls", "%v", err))
	}
	return errors.Join(errs...)
}

// missingFiles returns a message for each TLS file that does not exist.
func (s *Settings) missingFiles() []string {
	var out []string
	for _, f := range []struct{ setting, path string }{
		{"ca_file", s.TLS.CAFile}, {"cert_file", s.TLS.CertFile}, {"key_file", s.TLS.KeyFile}} {
		if _, err := os.Stat(f.path); f.path != "" && errors.Is(err, fs.ErrNotExist) {
			out = append(out, s.Fault("tls."+f.setting, "%v", err).Error())
		}
	}
	return out
}
