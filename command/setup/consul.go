package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/consul"
)

func consulCommand() term.Command {
	return term.Command{
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
			o.declare(f, "Consul")
			return o.run(func(ctx context.Context, e *term.Env) error { return setupConsul(ctx, e, o) })
		},
	}
}

func setupConsul(ctx context.Context, e *term.Env, o *options) error {
	cfg := api.DefaultConfigWithLogger(hclog.NewNullLogger())
	agent, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: *cfg, Timeout: timeout})
	if err != nil {
		return fmt.Errorf("Error in the CONSUL_* environment: %w", err)
	}
	s := &session{env: e, yes: o.yes, system: "Consul", failed: consulFailed}
	if err := consulEdition(ctx, s, agent); err != nil {
		return err
	}
	all := consulObjects(o, agent.Client().ACL())
	if o.destroy {
		return s.delete(ctx, all)
	}
	states, err := s.create(ctx, all)
	if err != nil {
		return err
	}
	e.Printf(`
Add this to the configuration of each server. Workloads of jobs that are registered afterwards log in:

consul {
  service_identity {
    aud = [%q]
    ttl = "1h"
  }
  task_identity {
    aud = [%q]
    ttl = "1h"
  }
}

For tasks in a namespace other than default, create a role with the name nomad-<namespace>-tasks.
`, consulAudience, consulAudience)
	o.warn(e, "Consul")
	s.compare(states)
	return nil
}

// consulEdition asks for a confirmation if Consul is an Enterprise build, because the objects are then in one namespace only.
func consulEdition(ctx context.Context, s *session, agent *consul.Agent) error {
	ctx, cancel := agent.Within(ctx)
	defer cancel()
	_, err := agent.Client().Operator().LicenseGet((&api.QueryOptions{}).WithContext(ctx))
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

// consulFailed adds the remedy to the error of a request. The body of an answer could contain a token and is removed.
func consulFailed(what string, err error) error {
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
