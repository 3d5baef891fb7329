package config

import (
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"time"

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
	fault := func(key, format string, args ...any) error { return s.Fault("consul."+name+"."+key, format, args...) }
	out := &nomad.WorkloadIdentity{Audience: c.Aud, Env: c.Env, File: c.File, Filepath: c.Filepath}
	var err error
	switch {
	case len(c.Aud) == 0:
		return nil, fault("aud", `is required: use the audience of the auth method in Consul, such as aud = ["consul.io"]`)
	case slices.Contains(c.Aud, ""):
		return nil, fault("aud", "an audience must not be empty")
	case c.Filepath != "" && !c.File:
		return nil, fault("filepath", "needs file = true")
	case c.Filepath != "" && !filepath.IsLocal(c.Filepath):
		return nil, fault("filepath", "%q is outside the task directory: use a relative path", c.Filepath)
	case c.TTL != "":
		out.TTL, err = time.ParseDuration(c.TTL)
	}
	if err != nil || out.TTL < 0 {
		return nil, fault("ttl", "%q is not a duration of at least 0, such as 1h", c.TTL)
	}
	return out, nil
}

// isZero reports whether no key of the block is set.
func (c *Identity) isZero() bool { return reflect.DeepEqual(*c, Identity{}) }

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
