// Package setup implements the command "setup consul", which creates the ACL objects of Consul that let workloads log in.
//
//	objects (objects.go) ──missing?──▶ question ──▶ created in order
//	                     ──present?──▶ question ──▶ deleted in reverse order (-destroy)
//
// The command talks to Consul only, with the CONSUL_* environment, and never to an agent of this project. An object that
// exists is not changed. So the command can be repeated, also after a failure in the middle. The package has no state and
// starts no goroutine.
package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/consul"
)

// timeout limits a request to Consul.
const timeout = 10 * time.Second

// maxCA limits the file of -jwks-ca-file, in bytes.
const maxCA = 256 << 10

// errNeedsYes means that nobody can answer a question.
var errNeedsYes = errors.New("This command requires -y option when running in non-interactive mode")

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{{
		Name: "setup consul", Short: "Create the ACL objects of Consul for logins of workloads",
		Long: `Creates in Consul what lets services and tasks log in with their workload identity: the auth method nomad-workloads with
its two binding rules, the policy policy-nomad-tasks and the role nomad-default-tasks. An object that exists is not changed.
With -destroy, deletes them. The tokens of running workloads end then.

The command talks to Consul only. The address and the token are those of the CONSUL_* environment, such as CONSUL_HTTP_ADDR
and CONSUL_HTTP_TOKEN. The token needs the right acl = "write".

    nomad setup consul -jwks-url=https://nomad.example.com:4646/.well-known/jwks.json -jwks-ca-file=ca.pem
    nomad setup consul -destroy

Without a terminal, -y is required.`,
		Setup: func(f *term.Flags) term.Run {
			o := &options{}
			f.StringVar(&o.url, "jwks-url", "http://localhost:4646/.well-known/jwks.json",
				"The `URL` of the keys of the cluster. Each server of Consul must reach it. Default: http://localhost:4646/.well-known/jwks.json.")
			caFile := f.String("jwks-ca-file", "", "A PEM `file` with the CA of the certificate at -jwks-url.")
			f.BoolVar(&o.destroy, "destroy", false, "Delete the objects.")
			f.BoolVar(&o.yes, "y", false, "Answer yes to each question.")
			return func(ctx context.Context, e *term.Env) error {
				o.terminal = e.InputIsTerminal()
				if *caFile != "" {
					ca, err := e.Input(*caFile, maxCA)
					if err != nil {
						return fmt.Errorf("Error reading -jwks-ca-file: %w", err)
					}
					o.ca = string(ca)
				}
				return o.run(ctx, e)
			}
		},
	}}
}

// options are the flags of the command.
type options struct {
	url, ca      string // of the keys; ca is PEM
	destroy, yes bool
	terminal     bool // standard input is a terminal
}

func (o *options) run(ctx context.Context, e *term.Env) error {
	if !o.terminal && !o.yes {
		return errNeedsYes
	}
	if err := o.check(); err != nil {
		return err
	}
	cfg := api.DefaultConfigWithLogger(hclog.NewNullLogger())
	agent, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: *cfg, Timeout: timeout})
	if err != nil {
		return fmt.Errorf("Error in the CONSUL_* environment: %w", err)
	}
	s := &session{options: o, env: e, agent: agent}
	if err := s.edition(ctx); err != nil {
		return err
	}
	if o.destroy {
		return s.delete(ctx)
	}
	return s.create(ctx)
}

// session is one run of the command.
type session struct {
	*options
	env   *term.Env
	agent *consul.Agent
}

// errDeclined means that the user answered no.
var errDeclined = errors.New("declined")

// ask asks a question unless -y is set. The answer no is errDeclined.
func (s *session) ask(question string) error {
	if s.yes || s.env.Confirm(question+" [y/N]") {
		return nil
	}
	return errDeclined
}

// edition asks for a confirmation if Consul is an Enterprise build, because the objects are then in one namespace only.
func (s *session) edition(ctx context.Context) error {
	ctx, cancel := s.agent.Within(ctx)
	defer cancel()
	_, err := s.agent.Client().Operator().LicenseGet((&api.QueryOptions{}).WithContext(ctx))
	var status api.StatusError
	switch {
	case err == nil:
	case errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed):
		return nil // Consul CE
	default:
		return s.failed("query the edition of Consul", err)
	}
	s.env.Println("This is Consul Enterprise. Its namespaces and partitions are not supported: the objects are those of the\n" +
		"namespace of CONSUL_NAMESPACE, or of the default one.")
	return s.declined(s.ask("Continue?"))
}

// declined ends the command without a failure if the user answered no.
func (s *session) declined(err error) error {
	if errors.Is(err, errDeclined) {
		s.env.Println("Nothing changed.")
		return term.Exit(0)
	}
	return err
}

// failed adds the remedy to the error of a request. The body of an answer could contain a token and is removed.
func (s *session) failed(what string, err error) error {
	var status api.StatusError
	remedy := ""
	if errors.As(err, &status) {
		switch status.Code {
		case http.StatusUnauthorized:
			remedy = ": ACLs are not enabled in Consul, so workloads need no login"
		case http.StatusForbidden:
			remedy = ": set CONSUL_HTTP_TOKEN to a token with acl = \"write\" and operator = \"read\""
		}
	} else {
		remedy = ": set CONSUL_HTTP_ADDR to an agent of Consul"
	}
	return fmt.Errorf("Failed to %s: %v%s", what, consul.Redact(err), remedy) // not %w: the remedies of term are those of a Nomad agent
}
