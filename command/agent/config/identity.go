package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Identity is the consul.service_identity, consul.task_identity or vault.default_identity block.
type Identity struct {
	Aud         []string          `hcl:"aud" merge:"union"`
	Env         bool              `hcl:"env"`
	File        bool              `hcl:"file"`
	Filepath    string            `hcl:"filepath"`
	TTL         string            `hcl:"ttl"`
	ExtraClaims map[string]string `hcl:"extra_claims"`
}

// identity returns the identity of a block, such as "vault.default_identity".
func (s *Settings) identity(block string, c *Identity) (*nomad.WorkloadIdentity, error) {
	fault := func(key, format string, args ...any) error { return s.Fault(block+"."+key, format, args...) }
	out := &nomad.WorkloadIdentity{Audience: c.Aud, Env: c.Env, File: c.File, Filepath: c.Filepath}
	var err error
	switch {
	case len(c.Aud) == 0:
		product, _, _ := strings.Cut(block, ".")
		return nil, fault("aud", "is required: use the audience of the auth method, such as aud = [\"%s.io\"]", product)
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
