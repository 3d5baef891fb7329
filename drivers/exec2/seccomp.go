package exec2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/sandbox/seccomp"
)

// settings are the plugin block and the profiles in its files, read once.
type settings struct {
	config.Plugin
	profiles map[string]*seccomp.Profile
}

// decodeSettings decodes the plugin block and loads its seccomp profiles. A missing or unsupported
// file is thus an error now and not at a task's start.
func decodeSettings(v cty.Value) (settings, error) {
	p, err := config.DecodePlugin(v)
	if err != nil {
		return settings{}, err
	}
	s := settings{Plugin: p, profiles: map[string]*seccomp.Profile{}}
	for _, name := range slices.Sorted(maps.Keys(p.SeccompProfiles)) {
		if name == config.SeccompDefault {
			return s, fmt.Errorf("seccomp_profiles: the name %q is reserved for the built-in profile", name)
		}
		if s.profiles[name], err = seccomp.Load(name, p.SeccompProfiles[name]); err != nil {
			return s, fmt.Errorf("seccomp_profiles: %w", err)
		}
	}
	if _, err := s.profile(p.SeccompProfile); err != nil {
		return s, fmt.Errorf("seccomp_profile: %w", err)
	}
	for _, name := range p.AllowTaskSeccomp {
		if _, err := s.profile(name); err != nil {
			return s, fmt.Errorf("allow_task_seccomp: %w", err)
		}
	}
	return s, nil
}

// profile returns the profile with this name.
func (s settings) profile(name string) (*seccomp.Profile, error) {
	if name == config.SeccompDefault {
		return seccomp.Standard()
	}
	if p, ok := s.profiles[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%q is not a profile of this node: it has %q and those of seccomp_profiles", name, config.SeccompDefault)
}

// filter adds the seccomp filter to a policy that is otherwise complete.
func (s *setup) filter(p *sandbox.Policy) error {
	name := cmp.Or(s.task.SeccompProfile, s.set.SeccompProfile)
	if name != s.set.SeccompProfile && !slices.Contains(s.set.AllowTaskSeccomp, name) {
		return fmt.Errorf("seccomp_profile: %q is not allowed for tasks by this node's driver config (allow_task_seccomp)", name)
	}
	profile, err := s.set.profile(name)
	if err != nil {
		return fmt.Errorf("seccomp_profile: %w", err)
	}
	return process.SetFilter(p, profile)
}
