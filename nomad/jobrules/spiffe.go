package jobrules

import (
	"strings"

	"github.com/open-nomad/open-nomad/internal/pki"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// validateSpiffe checks the spiffe block of a task. The servers also check it against their
// configuration.
func validateSpiffe(t *nomad.Task, f *faults) {
	s := t.Spiffe
	if s == nil {
		return
	}
	if !s.X509 && !s.JWT {
		f.add("the spiffe block requests no identity: set x509 = true or jwt = true")
	}
	if s.TTL != 0 && (s.TTL < nomad.SpiffeMinTTL || s.TTL > nomad.SpiffeDefaultTTL) {
		f.add("the ttl of spiffe is %v: use %v to %v", s.TTL, nomad.SpiffeMinTTL, nomad.SpiffeDefaultTTL)
	}
	if len(s.DNS) > 0 && !s.X509 {
		f.add("spiffe has dns, which only X.509 identities have: set x509 = true or remove dns")
	}
	if len(s.DNS) > spiffe.MaxDNS {
		f.add("spiffe has %d names in dns: the limit is %d", len(s.DNS), spiffe.MaxDNS)
		return
	}
	for _, name := range s.DNS {
		if err := pki.CheckDNSName(name); err != nil {
			f.add("dns of spiffe: %v", err)
		} else if strings.HasPrefix(name, "*") || name != strings.ToLower(name) {
			f.add("dns of spiffe has %q: use lower case names without *", name)
		}
	}
}
