package setup

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"

	"github.com/open-nomad/open-nomad/command/term"
)

// check checks the flags before any request.
func (o *options) check() error {
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("-jwks-url must be a URL such as https://nomad.example.com:4646/.well-known/jwks.json, without a user")
	}
	if o.ca == "" {
		return nil
	}
	if u.Scheme != "https" {
		return errors.New("-jwks-ca-file requires a -jwks-url that begins with https")
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(o.ca)) {
		return errors.New("-jwks-ca-file has no certificate in the format PEM")
	}
	return nil
}

// exposed reports whether the keys are read without TLS from another machine. Whoever can change the answer can log in as
// any workload.
func (o *options) exposed() bool {
	u, err := url.Parse(o.url)
	if err != nil || u.Scheme == "https" || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

// found returns the IDs of the objects, "" for those that do not exist.
func (s *session) found(ctx context.Context, all []object) ([]string, error) {
	var ids []string
	for _, o := range all {
		limited, cancel := s.agent.Within(ctx)
		id, err := o.find(limited, s.agent.Client().ACL())
		cancel()
		if err != nil {
			return nil, s.failed("read "+o.name, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// create creates the objects that do not exist.
func (s *session) create(ctx context.Context) error {
	all := s.objects()
	ids, err := s.found(ctx, all)
	if err != nil {
		return err
	}
	if slices.Contains(ids, "") && !s.yes {
		s.env.Println("These objects will be created in Consul:")
		for i, o := range all {
			if ids[i] == "" {
				s.env.Printf("  * %s: %s\n", o.name, o.show)
			}
		}
		if err := s.declined(s.ask("Create them?")); err != nil {
			return err
		}
	}
	for i, o := range all {
		if ids[i] != "" {
			s.env.Printf("[✔] %s already exists.\n", title(o.name))
			continue
		}
		limited, cancel := s.agent.Within(ctx)
		err := o.create(limited, s.agent.Client().ACL())
		cancel()
		if err != nil {
			return s.failed("create "+o.name, err)
		}
		s.env.Printf("[✔] Created %s.\n", o.name)
	}
	s.next()
	return s.compare(ctx)
}

// next prints what remains to be done.
func (s *session) next() {
	s.env.Printf(`
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
`, audience, audience)
	if s.exposed() {
		s.env.Warnf("Warning: Consul reads the keys without TLS. Whoever can change the answer can log in as any workload.")
	}
}

// errDeleted means that somebody else deleted an object.
var errDeleted = errors.New("it was deleted")

// compare warns about an auth method that existed, and has keys at another URL or accepts other signatures.
func (s *session) compare(ctx context.Context) error {
	ctx, cancel := s.agent.Within(ctx)
	defer cancel()
	m, _, err := s.agent.Client().ACL().AuthMethodRead(methodName, reading(ctx))
	if err != nil || m == nil { // nil: it was deleted meanwhile
		return s.failed("read "+s.method().name, cmp.Or(err, errDeleted))
	}
	if at, _ := m.Config["JWKSURL"].(string); at != s.url {
		s.env.Warnf("Warning: the auth method reads the keys from %s, not from -jwks-url. Use -destroy first to change it.", term.Cell(at))
	}
	accepted, ok := m.Config["JWTSupportedAlgs"].([]any)
	if !ok {
		accepted = []any{"RS256"} // the default of Consul
	}
	for _, alg := range algorithms {
		if !slices.Contains(accepted, any(alg)) {
			s.env.Warnf("Warning: the auth method does not accept %s: add it to JWTSupportedAlgs for identities with this signature.", alg)
		}
	}
	return nil
}

// delete deletes the objects that exist, in reverse order.
func (s *session) delete(ctx context.Context) error {
	all := s.objects()
	ids, err := s.found(ctx, all)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	slices.Reverse(ids)
	if !slices.ContainsFunc(ids, func(id string) bool { return id != "" }) {
		s.env.Println("Nothing to delete.")
		return nil
	}
	if !s.yes {
		s.env.Println("These objects will be deleted in Consul, and the tokens of all workloads end:")
		for i, o := range all {
			if ids[i] != "" {
				s.env.Printf("  * %s\n", o.name)
			}
		}
		if err := s.declined(s.ask("Delete them?")); err != nil {
			return err
		}
	}
	for i, o := range all {
		if ids[i] == "" {
			continue
		}
		limited, cancel := s.agent.Within(ctx)
		err := o.remove(limited, s.agent.Client().ACL(), ids[i])
		cancel()
		if err != nil {
			return s.failed("delete "+o.name, err)
		}
		s.env.Printf("[✔] Deleted %s.\n", o.name)
	}
	return nil
}

// title returns a sentence that begins with a capital letter.
func title(text string) string { return string(text[0]-'a'+'A') + text[1:] }
