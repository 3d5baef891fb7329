package services

import (
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// plain returns an error for a name or an address that is more than one word. Templates of other tasks write both to
// their files, so a node must not add lines to these.
func plain(r *catalog.Registration) error {
	switch {
	case !catalog.ServiceName(r.ServiceName):
		return apierror.Errorf(400, "invalid service registration %q: the service name %q must have 1 to 63 "+
			"letters, digits and dashes, and no dash at its ends", r.ID, r.ServiceName)
	case len(r.Address) > catalog.MaxHost ||
		strings.ContainsFunc(r.Address, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }):
		return apierror.Errorf(400, "invalid service registration address %q of service %q: it must have at most %d bytes, without spaces",
			r.Address, r.ServiceName, catalog.MaxHost)
	}
	return nil
}

// mayBe reports whether a client can have interpolated a name of the job to a service name. What is between the
// variables is known here.
func mayBe(name, service string) bool {
	fixed, rest, open := strings.Cut(name, "${")
	if !open {
		return name == service
	}
	service, ok := strings.CutPrefix(service, fixed)
	for ok && open {
		if _, rest, ok = strings.Cut(rest, "}"); !ok {
			return false // not a variable: the client rejects the name
		}
		if fixed, rest, open = strings.Cut(rest, "${"); open {
			_, service, ok = strings.Cut(service, fixed)
		}
	}
	return ok && strings.HasSuffix(service, fixed)
}

// fits returns an error if an allocation would have more than maxRegistrations.
func fits(snap *state.Snapshot, rows []*catalog.Registration) error {
	count := map[string]int{}
	for _, r := range rows {
		if _, counted := count[r.AllocID]; !counted {
			for range snap.RegistrationsByAlloc(nil, r.AllocID) {
				count[r.AllocID]++
			}
		}
		if snap.Registration(nil, r.Namespace, r.ID) == nil {
			count[r.AllocID]++
		}
		if count[r.AllocID] > maxRegistrations {
			return apierror.Errorf(400, "service registration %q: allocation %s has more than %d", r.ID, r.AllocID, maxRegistrations)
		}
	}
	return nil
}
