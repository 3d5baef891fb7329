package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/command/vaultenv"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// vaultTimeout limits a request to Vault.
const vaultTimeout = 10 * time.Second

// vaultFlags are the flags for Vault. The environment has the values that are not set.
type vaultFlags vaultenv.Flags

func (v *vaultFlags) declare(f *term.Flags) {
	f.StringVar(&v.Address, "vault-address", "", "Also capture the health of Vault at this `address`. Overrides VAULT_ADDR.")
	f.StringVar(&v.Token, "vault-token", "", "A `token` for Vault. It is not sent, because the health needs none, and is removed from all files.")
	f.StringVar(&v.CACert, "vault-ca-cert", "", "A PEM `file` with the CA of Vault's certificate. Overrides VAULT_CACERT.")
	f.StringVar(&v.CAPath, "vault-ca-path", "", "A `directory` of PEM CA files. Overrides VAULT_CAPATH.")
	f.StringVar(&v.ClientCert, "vault-client-cert", "", "A PEM `file` with the certificate for Vault. Overrides VAULT_CLIENT_CERT.")
	f.StringVar(&v.ClientKey, "vault-client-key", "", "A PEM `file` with the key of that certificate. Overrides VAULT_CLIENT_KEY.")
	f.StringVar(&v.ServerName, "vault-tls-server-name", "", "The `name` to expect in Vault's certificate. Overrides VAULT_TLS_SERVER_NAME.")
}

// connection returns the connection to Vault, nil if no address is set. An address that an agent of the cluster reports is not
// used. The health needs no token, and Vault Enterprise refuses it in a namespace, so neither is sent.
func (v *vaultFlags) connection() (*vaultenv.Connection, error) {
	if v.Address == "" && os.Getenv(api.EnvVaultAddress) == "" {
		return nil, nil
	}
	c, err := vaultenv.New(vaultenv.Flags(*v))
	if err != nil {
		return nil, err
	}
	return c.Anonymous(), nil
}

func (v *vaultFlags) secrets() []string { return vaultenv.Flags(*v).Secrets() }

// vaultHealth has the fields of Vault's health in a bundle. Fields of newer versions are omitted.
type vaultHealth struct {
	Initialized                bool   `json:"initialized"`
	Sealed                     bool   `json:"sealed"`
	Standby                    bool   `json:"standby"`
	PerformanceStandby         bool   `json:"performance_standby"`
	ReplicationPerformanceMode string `json:"replication_performance_mode"`
	ReplicationDRMode          string `json:"replication_dr_mode"`
	ServerTimeUTC              int64  `json:"server_time_utc"`
	Version                    string `json:"version"`
	ClusterName                string `json:"cluster_name,omitempty"`
	ClusterID                  string `json:"cluster_id,omitempty"`
	Enterprise                 bool   `json:"enterprise"`
	ClockSkewMillis            int64  `json:"clock_skew_ms"`
}

// readVault captures the health of Vault. A Vault that is sealed or not initialized answers too.
func (p *capture) readVault(ctx context.Context, n int) {
	file := fmt.Sprintf("nomad/%04d/vault-sys-health.json", n)
	limited, cancel := context.WithTimeout(ctx, vaultTimeout)
	defer cancel()
	health, err := p.vault.Client().Sys().HealthWithContext(limited)
	if err == nil {
		err = p.write(file, health)
	}
	p.done(ctx, file, newVaultError(err))
}

func (p *capture) write(file string, health *api.HealthResponse) error {
	all, err := json.Marshal(health)
	if err != nil {
		return err
	}
	var known vaultHealth
	if err := json.Unmarshal(all, &known); err != nil {
		return err
	}
	text, err := jsonOf(known)
	if err != nil {
		return err
	}
	return p.dir.json(file, bytes.NewReader(text))
}

// newVaultError returns the error of a request to Vault without the text of the answer, which could contain a token. It
// returns nil for nil.
func newVaultError(err error) error {
	if err == nil {
		return nil
	}
	var status *api.ResponseError
	if errors.As(err, &status) {
		return &systemError{status.StatusCode, vault.Redact(err)}
	}
	return &systemError{0, vault.Redact(err)}
}
