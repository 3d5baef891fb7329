// Package vaultenv connects commands of an operator to Vault or OpenBao, with the VAULT_* environment of the operator.
// Agents and workloads never use it: internal/vault is their connection, which has nothing of an environment.
//
// The token is that of VAULT_TOKEN. The file ~/.vault-token is not read. The package has no state and starts no goroutine.
package vaultenv

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/vault"
)

// Flags are the flags of a command. Empty ones are those of the environment.
type Flags struct {
	Address, Token, Namespace                         string
	CACert, CAPath, ClientCert, ClientKey, ServerName string
}

// Connection is a connection to Vault with the token of an operator. It prints as its address.
type Connection struct {
	cluster          *vault.Cluster
	token, namespace string
}

// unsupported are the variables that would change the connection, and what to use instead.
var unsupported = map[string]string{
	api.EnvVaultCACertBytes: "write the certificate to a file, and set " + api.EnvVaultCACert,
	api.EnvVaultAgentAddr:   "set " + api.EnvVaultAddress,
	api.EnvVaultProxyAddr:   "set HTTPS_PROXY",
	api.EnvHTTPProxy:        "set HTTPS_PROXY",
}

// New returns a connection. It makes no request.
func New(f Flags) (*Connection, error) {
	for name, instead := range unsupported {
		if os.Getenv(name) != "" {
			return nil, fmt.Errorf("%s is not supported: unset it and %s", name, instead)
		}
	}
	skip := false
	if text := os.Getenv(api.EnvVaultSkipVerify); text != "" {
		var err error
		if skip, err = strconv.ParseBool(text); err != nil {
			return nil, errors.New(api.EnvVaultSkipVerify + " is not true or false")
		}
	}
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: cmp.Or(f.Address, os.Getenv(api.EnvVaultAddress), api.DefaultAddress),
		TLS: vault.TLS{CAFile: cmp.Or(f.CACert, os.Getenv(api.EnvVaultCACert)), CAPath: cmp.Or(f.CAPath, os.Getenv(api.EnvVaultCAPath)),
			CertFile: cmp.Or(f.ClientCert, os.Getenv(api.EnvVaultClientCert)), KeyFile: cmp.Or(f.ClientKey, os.Getenv(api.EnvVaultClientKey)),
			ServerName: cmp.Or(f.ServerName, os.Getenv(api.EnvVaultTLSServerName)), SkipVerify: skip}})
	if err != nil {
		return nil, fmt.Errorf("Error in the flags or the environment of Vault: %w", err)
	}
	namespace := strings.Trim(cmp.Or(f.Namespace, os.Getenv(api.EnvVaultNamespace)), "/")
	return &Connection{c, cmp.Or(f.Token, os.Getenv(api.EnvVaultToken)), namespace}, nil
}

// Secrets returns the tokens of the flags and of the environment, which no output may contain.
func (f Flags) Secrets() []string { return []string{f.Token, os.Getenv(api.EnvVaultToken)} }

// Anonymous returns the connection without the token and the namespace.
func (c Connection) Anonymous() *Connection { return &Connection{cluster: c.cluster} }

// Address returns the address of Vault.
func (c Connection) Address() string { return c.cluster.Settings().Address }

// Namespace returns the namespace, "" for the root namespace.
func (c Connection) Namespace() string { return c.namespace }

// Authorized reports whether there is a token.
func (c Connection) Authorized() bool { return c.token != "" }

// String returns the address.
func (c Connection) String() string { return c.Address() }

// Format implements fmt.Formatter: no verb prints the token.
func (c Connection) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.Address()) }

// LogValue returns the address.
func (c Connection) LogValue() slog.Value { return slog.StringValue(c.Address()) }

// Client returns a client for requests in the namespace.
func (c Connection) Client() *api.Client { return c.cluster.Client(c.token, c.namespace) }

// ClientIn returns a client for requests in another namespace.
func (c Connection) ClientIn(namespace string) *api.Client {
	return c.cluster.Client(c.token, namespace)
}
