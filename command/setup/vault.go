package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/command/vaultenv"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// vaultOptions are the flags of "setup vault".
type vaultOptions struct {
	options
	kv      string // the mount of the engine with the secrets of jobs
	check   bool
	formats term.Formats
	detail  term.Detail
}

func vaultCommand() term.Command {
	return term.Command{
		Name: "setup vault", Short: "Create the objects of Vault for logins of tasks",
		Long: `Creates in Vault or OpenBao what lets tasks log in with their workload identity: the auth method jwt-nomad, the policy
nomad-workloads and the role nomad-workloads. A task can then read the secrets of its job, below <namespace>/<job> in the
engine at -kv-path. An object that exists is not changed. What differs from a new one is printed.

With -destroy, deletes what the command has created. The tokens of running tasks end then.

The command talks to Vault only. The connection is that of the VAULT_* environment, such as VAULT_ADDR and VAULT_TOKEN. If
VAULT_NAMESPACE is set, the objects are in this namespace, which is created. In Vault Enterprise, the default is the namespace
nomad-workloads.

With -check, asks the cluster instead whether all jobs and nodes can use workload identities with Vault. If not, prints which
ones cannot, and the exit code is 1, also with -json and -t.

    nomad setup vault -jwks-url=https://nomad.example.com:4646/.well-known/jwks.json -jwks-ca-file=ca.pem
    nomad setup vault -destroy
    nomad setup vault -check

Without a terminal, -y is required.`,
		Setup: func(f *term.Flags) term.Run {
			o := &vaultOptions{}
			o.declare(f, "Vault")
			f.StringVar(&o.kv, "kv-path", "secret", "The `mount` of the key-value engine, version 2, with the secrets of jobs. Default: secret.")
			f.BoolVar(&o.check, "check", false, "Check whether the cluster is ready for workload identities with Vault.")
			o.formats.Declare(f)
			f.DetailVar(&o.detail, "Print complete IDs.")
			create := o.run(func(ctx context.Context, e *term.Env) error { return setupVault(ctx, e, o) })
			return func(ctx context.Context, e *term.Env) error {
				if err := o.exclusive(f); err != nil {
					return err
				}
				if o.check {
					return o.ready(ctx, e)
				}
				return create(ctx, e)
			}
		},
	}
}

// exclusive checks which flags are used together.
func (o *vaultOptions) exclusive(f *term.Flags) (err error) {
	if o.kv = strings.Trim(o.kv, "/"); o.kv == "" {
		return errors.New("The -kv-path option must specify a non-empty mount path")
	}
	if strings.ContainsAny(o.kv, "\"\\{}*+\n\r$%#") {
		return errors.New("-kv-path has a character that cannot be part of a mount")
	}
	if o.check && o.destroy {
		return errors.New("-check and -destroy exclude each other")
	}
	set := map[string]bool{"json": o.formats.Wanted() && !isSet(f, "t"), "t": isSet(f, "t"), "verbose": o.detail == term.Full}
	for _, name := range []string{"json", "t", "verbose"} {
		if set[name] && !o.check {
			return fmt.Errorf("The -%s option can only be used with -check", name)
		}
	}
	return nil
}

func isSet(f *term.Flags, name string) bool { return f.Lookup(name).Value.String() != "" }

// vaultSetup is what a run of "setup vault" works on.
type vaultSetup struct {
	*vaultOptions
	conn      *vaultenv.Connection
	namespace string // of the objects, "" for the root namespace

	absent bool       // the namespace does not exist yet
	mount  *authMount // nil if the auth method does not exist
}

func setupVault(ctx context.Context, e *term.Env, o *vaultOptions) error {
	conn, err := vaultenv.New(vaultenv.Flags{})
	if err != nil {
		return err
	}
	v := &vaultSetup{vaultOptions: o, conn: conn, namespace: conn.Namespace()}
	s := &session{env: e, yes: o.yes, system: "Vault", failed: v.failed}
	if err := v.edition(ctx, s); err != nil {
		return err
	}
	all := v.objects()
	if o.destroy {
		return s.delete(ctx, all)
	}
	states, err := s.create(ctx, all)
	if err != nil {
		return err
	}
	v.next(e)
	o.warn(e, "Vault")
	s.compare(states)
	return nil
}

// enterpriseNamespace is the namespace in Vault Enterprise if the environment has none.
const enterpriseNamespace = "nomad-workloads"

// edition chooses the namespace. Only Vault Enterprise has a license. OpenBao has namespaces without one.
func (v *vaultSetup) edition(ctx context.Context, s *session) error {
	if v.namespace != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	license, err := v.conn.Client().Logical().ReadWithContext(ctx, "sys/license/status")
	switch {
	case statusOf(err) == http.StatusForbidden:
		s.env.Warnf("Warning: the token may not read the license of Vault, so the root namespace is used. Set VAULT_NAMESPACE to use another one.")
	case statusOf(err) == http.StatusNotFound, statusOf(err) == http.StatusBadRequest, statusOf(err) == http.StatusMethodNotAllowed:
	case err != nil:
		return s.failed("query the edition of Vault", err)
	case license != nil:
		v.namespace = enterpriseNamespace
	}
	return nil
}

// client returns a client for requests about the objects.
func (v *vaultSetup) client() *api.Logical { return v.conn.ClientIn(v.namespace).Logical() }

// next prints what remains to be done.
func (v *vaultSetup) next(e *term.Env) {
	namespace := ""
	if v.namespace != "" {
		namespace = fmt.Sprintf("\n  namespace = %q", v.namespace)
	}
	e.Printf(`
Add this to the configuration of each agent. Servers use default_identity, clients the rest. Tasks with a vault block of
jobs that are registered afterwards log in:

vault {
  enabled = true
  address = %q%s

  default_identity {
    aud = [%q]
    ttl = "1h"
  }
}

A task reads the secrets below %s/<namespace>/<job>.
`, v.conn.Address(), namespace, vaultAudience, v.kv)
}

// statusOf returns the status of an answer, 0 if err is another error.
func statusOf(err error) int {
	var status *api.ResponseError
	if errors.As(err, &status) {
		return status.StatusCode
	}
	return 0
}

// errorsOf returns the lines of an answer with an error. They are only compared, never printed.
func errorsOf(err error) string {
	var status *api.ResponseError
	if errors.As(err, &status) {
		return strings.ToLower(strings.Join(status.Errors, "\n"))
	}
	return ""
}

// errKeys is the answer of Vault that it cannot read the keys.
type errKeys struct{ reason, remedy string }

func (e *errKeys) Error() string { return e.reason }

// errState is a state of Vault with which the command cannot work, and what to do.
type errState struct{ text string }

func (e *errState) Error() string { return e.text }

// keyErrors are the reasons why Vault cannot read keys, by a text of its answer.
var keyErrors = []struct{ text, reason, remedy string }{
	{"connection refused", "the connection is refused", ""},
	{"no such host", "the name of the host is unknown there", ""},
	{"timeout", "there is no answer", ""}, {"deadline exceeded", "there is no answer", ""},
	{"no route to host", "there is no route to the host", ""},
	{"unknown authority", "the certificate is not of a known CA", "set -jwks-ca-file to the CA of the agents' certificates"},
	{"certificate", "the certificate does not fit", "use a name of the certificate in -jwks-url, and its CA in -jwks-ca-file"},
	{"http response to https client", "the agent does not use TLS", "begin -jwks-url with http://"},
	{"malformed http response", "the agent uses TLS", "begin -jwks-url with https://"},
	{"status", "the answer is an error", "the path is /.well-known/jwks.json"},
}

// keysError returns an errKeys if Vault refused the keys of a configuration, else err.
func keysError(err error) error {
	text := errorsOf(err)
	if !strings.Contains(text, "error checking jwks") {
		return err
	}
	for _, k := range keyErrors {
		if strings.Contains(text, k.text) {
			return &errKeys{k.reason, k.remedy}
		}
	}
	return &errKeys{reason: "there is no set of keys"}
}

// failed adds the remedy to the error of a request. The text of an answer could contain a token and is removed.
func (v *vaultSetup) failed(what string, err error) error {
	var keys *errKeys
	if errors.As(err, &keys) {
		remedy := keys.remedy
		if remedy == "" {
			remedy = "set -jwks-url to a URL that each server of Vault reaches"
		}
		return fmt.Errorf("Failed to %s: Vault cannot read the keys at %s: %s: %s, then run the command again", what, v.url, keys.reason, remedy)
	}
	var state *errState
	if errors.As(err, &state) {
		return fmt.Errorf("Failed to %s: %v", what, state)
	}
	remedy := ""
	switch status := statusOf(err); {
	case status == http.StatusForbidden && !v.conn.Authorized():
		remedy = ": set VAULT_TOKEN to a token with the rights of an administrator"
	case status == http.StatusForbidden:
		remedy = ": the token in VAULT_TOKEN has expired or lacks a right"
	case status == http.StatusServiceUnavailable:
		remedy = ": Vault is sealed or not initialized"
	case status == 0:
		remedy = ": set VAULT_ADDR to the address of Vault"
	}
	return fmt.Errorf("Failed to %s: %v%s", what, vault.Redact(err), remedy) // not %w: the remedies of term are those of a Nomad agent
}
