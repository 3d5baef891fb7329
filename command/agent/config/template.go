package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/internal/render"
)

// checkTemplate checks the client.template block.
func (s *Settings) checkTemplate() error {
	const at = "client.template."
	t := &s.Client.Template
	var errs []error
	for key, d := range map[string]time.Duration{"max_stale": t.MaxStale, "block_query_wait": t.BlockQueryWait, "wait.min": t.Wait.Min,
		"wait.max": t.Wait.Max, "nomad_retry.backoff": t.NomadRetry.Backoff, "nomad_retry.max_backoff": t.NomadRetry.MaxBackoff,
		"consul_retry.backoff": t.ConsulRetry.Backoff, "consul_retry.max_backoff": t.ConsulRetry.MaxBackoff,
		"vault_retry.backoff": t.VaultRetry.Backoff, "vault_retry.max_backoff": t.VaultRetry.MaxBackoff} {
		if d < 0 {
			errs = append(errs, s.Fault(at+key, "must not be negative"))
		}
	}
	for key, attempts := range map[string]int{"nomad_retry": t.NomadRetry.Attempts, "consul_retry": t.ConsulRetry.Attempts,
		"vault_retry": t.VaultRetry.Attempts} {
		if attempts < 0 {
			errs = append(errs, s.Fault(at+key+".attempts", "must not be negative: 0 is unlimited"))
		}
	}
	if t.UseClientConsulToken && !t.ShareClientConsulToken {
		errs = append(errs, s.Fault(at+"use_client_consul_token", "the templates of every job could read all that the token of this agent "+
			"may read in Consul, which their sandbox must prevent: remove it, so that they use the identities of tasks, or also set "+
			"share_client_consul_token = true"))
	}
	if t.VaultDefaultLeaseDuration <= 0 {
		errs = append(errs, s.Fault(at+"vault_default_lease_duration", "must be above 0"))
	}
	if t.Wait.Min > t.Wait.Max {
		errs = append(errs, s.Fault(at+"wait.min", "%s is above wait.max, which is %s", t.Wait.Min, t.Wait.Max))
	}
	if bounds, key, err := t.WaitBounds.parse(); err != nil {
		errs = append(errs, s.Fault(at+"wait_bounds."+key, "%v", err))
	} else if bounds.Max > 0 && bounds.Min > bounds.Max {
		errs = append(errs, s.Fault(at+"wait_bounds", "min is above max"))
	}
	for _, pattern := range t.denied() {
		if _, err := path.Match(pattern, ""); err != nil {
			errs = append(errs, s.Fault(at+"function_denylist", "%q is not a pattern", pattern))
		}
	}
	return errors.Join(errs...)
}

// denied returns the functions of both denylists.
func (t *Template) denied() []string { return slices.Concat(t.FunctionDenylist, t.FunctionBlacklist) }

// parse returns the bounds, or an error and its key. An empty one is 0, which means no bound.
func (b TemplateWaitBounds) parse() (out render.Wait, key string, err error) {
	for _, bound := range []struct {
		key, text string
		to        *time.Duration
	}{{"min", b.Min, &out.Min}, {"max", b.Max, &out.Max}} {
		if bound.text == "" {
			continue
		}
		d, err := time.ParseDuration(bound.text)
		if err != nil || d < 0 {
			return out, bound.key, fmt.Errorf("%q is not a duration such as 10s", bound.text)
		}
		*bound.to = d
	}
	return out, "", nil
}

// templateConfig returns the configuration of templates.
func (s *Settings) templateConfig() (template.Config, error) {
	t := &s.Client.Template
	bounds, _, err := t.WaitBounds.parse()
	if err != nil {
		return template.Config{}, err
	}
	return template.Config{
		FunctionDenylist: t.denied(), DisableFileSandbox: t.DisableFileSandbox, MaxStale: t.MaxStale, BlockQueryWait: t.BlockQueryWait,
		Wait: render.Wait{Min: t.Wait.Min, Max: t.Wait.Max}, WaitBounds: bounds,
		NomadRetry:  render.Retry{Attempts: t.NomadRetry.Attempts, Backoff: t.NomadRetry.Backoff, MaxBackoff: t.NomadRetry.MaxBackoff},
		ConsulRetry: render.Retry(t.ConsulRetry), VaultRetry: render.Retry(t.VaultRetry),
		UseClientConsulToken: t.UseClientConsulToken, VaultDefaultLease: t.VaultDefaultLeaseDuration,
	}, nil
}
