package admission

import (
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// Spiffe is the configuration of the servers for spiffe blocks.
type Spiffe struct {
	TrustDomain string   // "" disables spiffe blocks
	DNS         []string // suffixes of the DNS names that tasks may have
}

// spiffe rejects a job with a spiffe block that this region cannot serve.
func (v *View) spiffe(job *nomad.Job) error {
	if !job.UsesSpiffe() {
		return nil
	}
	if v.cfg.Spiffe.TrustDomain != "" {
		if err := v.cfg.OnlyOurs(fmt.Sprintf("spiffe blocks of job %q", job.ID)); err != nil {
			return err
		}
	}
	return v.cfg.Spiffe.check(job, v.names)
}

// check is View.spiffe without the check of the servers.
func (s Spiffe) check(job *nomad.Job, names *kinds.Names) error {
	var list []error
	for _, p := range Places(job) {
		if p.Task.Spiffe == nil {
			continue
		}
		if s.TrustDomain == "" {
			return apierror.Errorf(400, "%s: spiffe blocks need a trust domain, and region %q has none: set trust_domain in the spiffe block of the servers", p, job.Region)
		}
		if _, err := spiffe.ID(s.TrustDomain, job, p.Group.Name, p.Task.Name); err != nil {
			list = append(list, apierror.Errorf(400, "%s: spiffe: %v: rename it", p, err))
		}
		for _, name := range p.Task.Spiffe.DNS {
			if !spiffe.Below(name, s.DNS) {
				list = append(list, apierror.Errorf(400, "%s: dns of spiffe has %q, which the servers do not allow: %s", p, name, s.allowed()))
			}
		}
		if k := names.Kind(p.Task.Driver); k == nil || !k.Grouped {
			list = append(list, apierror.Errorf(400,
				"%s: spiffe blocks need a driver whose tasks have a control group of the client, which driver %q does not give: use exec2 or raw_exec",
				p, p.Task.Driver))
		}
	}
	return errors.Join(list...)
}

// allowed names the suffixes for errors.
func (s Spiffe) allowed() string {
	if len(s.DNS) == 0 {
		return "add its suffix to dns in the spiffe block of the servers"
	}
	return "use names below " + strings.Join(s.DNS, ", ")
}
