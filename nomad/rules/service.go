package rules

import (
	"net/netip"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// maxRegistrationText is the maximum number of bytes of the ID and of the address of a registration.
const maxRegistrationText = 1024

// ServiceRegistration returns an error if the registration has no ID or no owner, or an address that no other task can reach.
func ServiceRegistration(r *catalog.Registration) error {
	for _, field := range []struct{ name, value string }{
		{"ID", r.ID}, {"service name", r.ServiceName}, {"namespace", r.Namespace}, {"node ID", r.NodeID},
		{"job ID", r.JobID}, {"allocation ID", r.AllocID},
	} {
		if field.value == "" {
			return apierror.Errorf(400, "invalid service registration %q: missing %s", r.ID, field.name)
		}
	}
	for _, text := range []string{r.ID, r.Address} {
		if len(text) > maxRegistrationText {
			return apierror.Errorf(400, "invalid service registration of service %q: the ID and the address can have %d bytes each",
				r.ServiceName, maxRegistrationText)
		}
	}
	if ip, err := netip.ParseAddr(r.Address); err == nil && ip.Unmap().IsUnspecified() {
		return apierror.Errorf(400, "invalid service registration address %q of service %q: no other task can reach it", r.Address, r.ServiceName)
	}
	if r.Port < 0 || r.Port > 65535 {
		return apierror.Errorf(400, "invalid service registration port %d of service %q: want 0 to 65535", r.Port, r.ServiceName)
	}
	return nil
}
