package config

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	fingerprinter "github.com/open-nomad/open-nomad/client/fingerprint/vault"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// Vault is a vault block. Blocks with the same name are merged.
type Vault struct {
	Name               string   `hcl:"name" default:"default"`
	Enabled            bool     `hcl:"enabled"`
	CreateFromRole     string   `hcl:"create_from_role" later:"tokens of tasks in Vault"`
	Namespace          string   `hcl:"namespace" later:"tokens of tasks in Vault"`
	Address            string   `hcl:"address" default:"https://vault.service.consul:8200"`
	JWTAuthBackendPath string   `hcl:"jwt_auth_backend_path" default:"jwt-nomad" later:"tokens of tasks in Vault"`
	CAFile             string   `hcl:"ca_file"`
	CAPath             string   `hcl:"ca_path"`
	CertFile           string   `hcl:"cert_file"`
	KeyFile            string   `hcl:"key_file"`
	TLSSkipVerify      bool     `hcl:"tls_skip_verify"`
	TLSServerName      string   `hcl:"tls_server_name"`
	DefaultIdentity    Identity `hcl:"default_identity" later:"tokens of tasks in Vault"`
	Token              string   `hcl:"token" later:"the token of a vault block in keyrings"`
}

// checkVault checks the vault blocks, and reads the TLS files of those that are enabled.
func (s *Settings) checkVault() error {
	var errs []error
	for _, v := range s.Vault {
		errs = append(errs, s.checkClusterName("vault.name", v.Name))
		if v.Enabled {
			errs = append(errs, s.checkVaultConnection(v))
		}
	}
	return errors.Join(errs...)
}

// checkClusterName checks the name of a cluster of Consul or Vault.
func (s *Settings) checkClusterName(path, name string) error {
	wrong := func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	if name == "" || len(name) > maxClusterName || strings.ContainsFunc(name, wrong) {
		return s.Fault(path, "invalid name %q: it must have 1 to %d of the characters a-z, A-Z, 0-9, - and _", name, maxClusterName)
	}
	return nil
}

// checkVaultConnection checks the address and the TLS files of a block. A missing file is a warning if the configuration
// is for another machine.
func (s *Settings) checkVaultConnection(v *Vault) error {
	var errs []error
	if err := vault.CheckAddress(v.Address); err != nil {
		errs = append(errs, s.Fault("vault.address", "%v", err))
	}
	if (v.CertFile == "") != (v.KeyFile == "") {
		errs = append(errs, s.Fault("vault.cert_file", "cert_file and key_file must be set together"))
	}
	for _, f := range []struct{ path, file string }{{"vault.ca_file", v.CAFile}, {"vault.ca_path", v.CAPath}, {"vault.cert_file", v.CertFile},
		{"vault.key_file", v.KeyFile}} {
		if f.file == "" {
			continue
		}
		_, err := os.Stat(f.file)
		switch {
		case err == nil:
		case s.otherMachine && errors.Is(err, fs.ErrNotExist):
			s.missing = append(s.missing, s.Fault(f.path, "%v", err).Error())
		default:
			errs = append(errs, s.Fault(f.path, "%v", err))
		}
	}
	if err := errors.Join(errs...); err != nil || s.otherMachine {
		return err
	}
	if _, err := vault.New(vaultSettings(v)); err != nil {
		return s.Fault("vault", "cluster %q: %v", v.Name, err)
	}
	return nil
}

// VaultSettings returns the settings of the connections to Vault, in the order of the blocks. Without an enabled block of
// the default cluster, there are none.
func (s *Settings) VaultSettings() (out []vault.Settings) {
	isDefault := func(v *Vault) bool { return v.Name == vault.DefaultCluster && v.Enabled }
	if !slices.ContainsFunc(s.Vault, isDefault) {
		return nil
	}
	for _, v := range s.Vault {
		if v.Enabled {
			out = append(out, vaultSettings(v))
		}
	}
	return out
}

// vaultSettings returns the settings of a block. IPv6 addresses get their canonical form.
func vaultSettings(v *Vault) vault.Settings {
	address := v.Address
	if u, err := url.Parse(address); err == nil {
		u.Host = canonicalHost(u.Host)
		address = u.String()
	}
	return vault.Settings{Name: v.Name, Address: address, TLS: vault.TLS{CAFile: v.CAFile, CAPath: v.CAPath, CertFile: v.CertFile,
		KeyFile: v.KeyFile, ServerName: v.TLSServerName, SkipVerify: v.TLSSkipVerify}}
}

// DetectsVault reports whether the client detects Vault.
func (s *Settings) DetectsVault() bool {
	lists := fingerprint.Config{Allow: s.allowedFingerprinters(), Deny: s.deniedFingerprinters()}
	return len(s.VaultSettings()) > 0 && lists.Allows(fingerprinter.Fingerprinter)
}
