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
		"wait.max": t.Wait.Max, "nomad_retry.backoff": t.NomadRetry.Backoff, "nomad_retry.max_backoff": t.NomadRetry.MaxBackoff} {
		if d < 0 {
			errs = append(errs, s.Fault(at+key, "must not be negative"))
		}
	}
	if t.NomadRetry.Attempts < 0 {
		errs = append(errs, s.Fault(at+"nomad_retry.attempts", "must not be negative: 0 is unlimited"))
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
		NomadRetry: render.Retry{Attempts: t.NomadRetry.Attempts, Backoff: t.NomadRetry.Backoff, MaxBackoff: t.NomadRetry.MaxBackoff},
	}, nil
}
