package reconcile

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"

	"github.com/hashicorp/consul/api"
)

// errNoToken means that a service waits for its own token.
var errNoToken = errors.New("waiting for the Consul token of the service")

// sidecarSuffix ends the ID that Consul gives to the sidecar of a service.
const sidecarSuffix = "-sidecar-proxy"

// SidecarID returns the ID that Consul gives to the sidecar of a service.
func SidecarID(service string) string { return service + sidecarSuffix }

// do makes a request within the time limit. All requests can be repeated. One whose connection was closed is repeated
// once at once, because a proxy closes idle connections.
func (r *Reconciler) do(ctx context.Context, fn func(context.Context, *api.Client) error) error {
	ctx, cancel := r.cfg.Agent.Within(ctx)
	defer cancel()
	c := r.cfg.Agent.Client()
	err := fn(ctx, c)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		err = fn(ctx, c)
	}
	return err
}

// options are those of a request. An empty token is the token of the agent.
func options(ctx context.Context, token string) *api.QueryOptions {
	return (&api.QueryOptions{Token: token}).WithContext(ctx)
}

// status returns the status of Consul's answer, 0 if there was none.
func status(err error) int {
	var se api.StatusError
	if errors.As(err, &se) {
		return se.Code
	}
	return 0
}

// notFound reports whether Consul does not have a service or check. Before 1.12 it answered 500.
func notFound(err error) bool {
	var se api.StatusError
	return errors.As(err, &se) && (se.Code == http.StatusNotFound ||
		se.Code == http.StatusInternalServerError && strings.HasPrefix(se.Body, "Unknown "))
}

// ownToken returns the token for a service and its checks, "" for the one of the agent.
func ownToken(s *Service) (string, error) {
	if s.Token == nil {
		return "", nil
	}
	if token := s.Token(); token != "" {
		return token, nil
	}
	return "", errNoToken
}

// reportUnknown reports the own token of a service if an error says that Consul does not have it.
func reportUnknown(s *Service, token string, err error) {
	var se api.StatusError
	if s.Unknown != nil && token != "" && errors.As(err, &se) && se.Code == http.StatusForbidden && strings.Contains(se.Body, "ACL not found") {
		s.Unknown(token)
	}
}

// register registers a service with its checks.
func (r *Reconciler) register(ctx context.Context, j *job) error {
	token, err := ownToken(j.want)
	if err != nil {
		return err
	}
	j.used = token
	reg := j.registration()
	err = r.do(ctx, func(ctx context.Context, c *api.Client) error {
		return c.Agent().ServiceRegisterOpts(reg, api.ServiceRegisterOpts{ReplaceExistingChecks: j.replace, Token: token}.WithContext(ctx))
	})
	reportUnknown(j.want, token, err)
	if err == nil {
		count("service_registrations", 1)
		count("check_registrations", len(reg.Checks))
	}
	return err
}

// repair registers the checks that Consul lacks, and removes those that are not wanted.
func (r *Reconciler) repair(ctx context.Context, j *job) error {
	for _, id := range j.surplus {
		err := r.authorized(ctx, j.want, func(ctx context.Context, c *api.Client, token string) error {
			return c.Agent().CheckDeregisterOpts(id, options(ctx, token))
		})
		if err != nil {
			return err
		}
		count("check_deregistrations", 1)
	}
	token, err := ownToken(j.want)
	if err != nil {
		return err
	}
	for _, def := range j.missing {
		check := &api.AgentCheckRegistration{ID: def.CheckID, Name: def.Name, Notes: def.Notes, ServiceID: j.item.id, AgentServiceCheck: *def}
		err := r.do(ctx, func(ctx context.Context, c *api.Client) error {
			return c.Agent().CheckRegisterOpts(check, options(ctx, token))
		})
		reportUnknown(j.want, token, err)
		if err != nil {
			return err
		}
		count("check_registrations", 1)
	}
	return nil
}

// deregister removes a service with its checks. A sidecar is removed first.
func (r *Reconciler) deregister(ctx context.Context, j *job) error {
	ids := []string{j.item.id}
	if j.sidecar {
		ids = []string{SidecarID(j.item.id), j.item.id}
	}
	for _, id := range ids {
		err := r.authorized(ctx, j.last, func(ctx context.Context, c *api.Client, token string) error {
			return c.Agent().ServiceDeregisterOpts(id, options(ctx, token))
		})
		if err != nil {
			return err
		}
	}
	count("service_deregistrations", 1)
	if j.last != nil {
		count("check_deregistrations", len(j.last.Registration.Checks))
	}
	return nil
}

// authorized makes a removal with the token of the agent, and if that has no right, with the service's own. What
// Consul does not have is removed.
func (r *Reconciler) authorized(ctx context.Context, s *Service, fn func(context.Context, *api.Client, string) error) error {
	with := func(token string) error {
		return r.do(ctx, func(ctx context.Context, c *api.Client) error { return fn(ctx, c, token) })
	}
	err := with("")
	if status(err) == http.StatusForbidden && s != nil && s.Token != nil {
		if token := s.Token(); token != "" {
			err = with(token)
		}
	}
	if notFound(err) {
		return nil
	}
	return err
}
