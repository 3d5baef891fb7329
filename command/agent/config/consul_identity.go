package config

import (
	"errors"

	"github.com/open-nomad/open-nomad/nomad"
	mode "github.com/open-nomad/open-nomad/nomad/consul"
)

// serverConsul returns what the servers have of Consul.
func (s *Settings) serverConsul() (out mode.Config, err error) {
	out.Setting = s.consulServices()
	c := s.DefaultConsul()
	if c == nil {
		return out, nil
	}
	if out.ServiceIdentity, err = s.consulIdentity("service_identity", &c.ServiceIdentity); err != nil {
		return out, err
	}
	out.TaskIdentity, err = s.consulIdentity("task_identity", &c.TaskIdentity)
	return out, err
}

// consulIdentity returns the identity of the block with a key, nil without one.
func (s *Settings) consulIdentity(name string, c *Identity) (*nomad.WorkloadIdentity, error) {
	if c.isZero() && !s.setsConsul(name) {
		return nil, nil
	}
	return s.identity("consul."+name, c)
}

// checkConsulClaims refuses extra claims, which identities for Consul do not get from the configuration.
func (s *Settings) checkConsulClaims() error {
	var errs []error
	for _, c := range s.Consul {
		for name, id := range map[string]*Identity{"service_identity": &c.ServiceIdentity, "task_identity": &c.TaskIdentity} {
			if key := "consul." + name + ".extra_claims"; len(id.ExtraClaims) > 0 {
				errs = append(errs, &absentKey{place: s.place(key), key: key, never: true,
					feature: "identities for Consul have the extra claims of their namespace: set them there"})
			}
		}
	}
	return errors.Join(errs...)
}
