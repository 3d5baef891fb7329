package config

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	fingerprinter "github.com/open-nomad/open-nomad/client/fingerprint/vault"
	"github.com/open-nomad/open-nomad/command/agent/config/decode"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	mode "github.com/open-nomad/open-nomad/nomad/vault"
)

// Vault is a vault block. Blocks with the same name are merged.
type Vault struct {
	Name               string   `hcl:"name" default:"default"`
	Enabled            bool     `hcl:"enabled"`
	CreateFromRole     string   `hcl:"create_from_role"`
	Namespace          string   `hcl:"namespace"`
	Address            string   `hcl:"address" default:"https://vault.service.consul:8200"`
	JWTAuthBackendPath string   `hcl:"jwt_auth_backend_path" default:"jwt-nomad"`
	CAFile             string   `hcl:"ca_file"`
	CAPath             string   `hcl:"ca_path"`
	CertFile           string   `hcl:"cert_file"`
	KeyFile            string   `hcl:"key_file"`
	TLSSkipVerify      bool     `hcl:"tls_skip_verify"`
	TLSServerName      string   `hcl:"tls_server_name"`
	DefaultIdentity    Identity `hcl:"default_identity"`
	Token              string   `hcl:"token"`

	ignored []string
}

// Ignore implements decode.LenientBlock: Nomad ignores unknown keys in this block. Configurations of earlier versions have
// some.
func (v *Vault) Ignore(key string) { v.ignored = append(v.ignored, key) }

// IgnoredVault returns the sorted keys of the vault blocks that the agent ignores.
func (s *Settings) IgnoredVault() (out []string) {
	for _, v := range s.Vault {
		out = append(out, v.ignored...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// presetVault applies -dev-vault: the default cluster on this machine, with an identity for tasks.
func (s *Settings) presetVault() {
	v := decode.ByName(reflect.ValueOf(&s.Vault).Elem(), "").Interface().(*Vault)
	v.Enabled, v.Address = true, "http://localhost:8200"
	v.DefaultIdentity = Identity{Aud: []string{"vault.io"}, TTL: "1h"}
}

// vaultNamespace is the variable with the namespace of the default cluster, unless its block sets one.
const vaultNamespace = "VAULT_NAMESPACE"

// completeVault takes the namespace of the default cluster from the environment.
func (s *Settings) completeVault(env func(string) string) {
	if v := s.defaultVault(); v != nil {
		v.Namespace = cmp.Or(v.Namespace, env(vaultNamespace))
	}
}

// defaultVault returns the block of the cluster that jobs can use, nil without one.
func (s *Settings) defaultVault() *Vault {
	at := slices.IndexFunc(s.Vault, func(v *Vault) bool { return v.Name == vault.DefaultCluster })
	if at < 0 {
		return nil
	}
	return s.Vault[at]
}

// checkVault checks the vault blocks, and reads the TLS files of those that are enabled.
func (s *Settings) checkVault() error {
	var errs []error
	for _, v := range s.Vault {
		errs = append(errs, s.checkClusterName("vault.name", v.Name))
		if v.Enabled {
			_, identity := s.vaultIdentity(v)
			errs = append(errs, s.checkAuthPath(v), identity, s.checkVaultConnection(v))
		}
	}
	return errors.Join(errs...)
}

// checkAuthPath checks the mount of the auth method.
func (s *Settings) checkAuthPath(v *Vault) error {
	mount := authPath(v)
	wrong := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("?#%\\", r) }
	if mount == "." || !filepath.IsLocal(mount) || strings.ContainsFunc(mount, wrong) {
		return s.Fault("vault.jwt_auth_backend_path", "must be the path of an auth method, such as jwt-nomad")
	}
	return nil
}

// authPath returns the mount of the auth method of a block in its canonical form.
func authPath(v *Vault) string { return path.Clean(strings.Trim(v.JWTAuthBackendPath, "/")) }

// serverVault returns the clusters for the servers.
func (s *Settings) serverVault() (mode.Clusters, error) {
	out := mode.Clusters{}
	for _, v := range s.Vault {
		c := &mode.Cluster{Enabled: v.Enabled, ExtraClaims: maps.Clone(v.DefaultIdentity.ExtraClaims)}
		if v.Enabled {
			var err error
			if c.DefaultIdentity, err = s.vaultIdentity(v); err != nil {
				return nil, err
			}
		}
		out[v.Name] = c
	}
	return out, nil
}

// vaultIdentity returns the default identity of a block, nil without one.
func (s *Settings) vaultIdentity(v *Vault) (*nomad.WorkloadIdentity, error) {
	const path = "vault.default_identity"
	if _, set := s.set[path]; v.DefaultIdentity.isZero() && !(set && len(s.Vault) == 1) {
		return nil, nil
	}
	return s.identity(path, &v.DefaultIdentity)
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
	return vault.Settings{Name: v.Name, Address: address, Namespace: v.Namespace, AuthPath: authPath(v), Role: v.CreateFromRole, TLS: vault.TLS{CAFile: v.CAFile, CAPath: v.CAPath, CertFile: v.CertFile,
		KeyFile: v.KeyFile, ServerName: v.TLSServerName, SkipVerify: v.TLSSkipVerify}}
}

// DetectsVault reports whether the client detects Vault.
func (s *Settings) DetectsVault() bool {
	lists := fingerprint.Config{Allow: s.allowedFingerprinters(), Deny: s.deniedFingerprinters()}
	return len(s.VaultSettings()) > 0 && lists.Allows(fingerprinter.Fingerprinter)
}
