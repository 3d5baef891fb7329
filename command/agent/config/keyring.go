package config

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// keyrings returns the configured key providers, or nil for the built-in one alone. A single aead
// provider is active by default.
func (s *Settings) keyrings() []kms.Config {
	var out []kms.Config
	for _, id := range slices.Sorted(maps.Keys(s.Keyring)) {
		out = append(out, s.Keyring[id].config())
	}
	if len(out) == 1 && out[0].Provider == string(rootkey.KEKProviderAEAD) {
		if _, said := s.set["keyring."+out[0].ID()+".active"]; !said {
			out[0].Active = true
		}
	}
	return out
}

// checkKeyring checks the keyring blocks, including settings from the environment.
func (s *Settings) checkKeyring() error {
	var errs []error
	all := s.keyrings()
	for _, c := range all {
		block := "keyring." + c.ID()
		_, faults := c.Complete(os.Getenv)
		for _, f := range faults {
			path := block
			if f.Key != "" {
				path += "." + f.Key
			}
			if _, set := s.set[path]; !set {
				s.set[path] = s.set[block] // report a missing key at its block
			}
			errs = append(errs, s.Fault(path, "%s", f.Text))
		}
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(c kms.Config) bool { return c.Active }) {
		errs = append(errs, s.Fault("keyring."+all[0].ID(), "no keyring block is active: set active = true in the one that wraps new root keys"))
	}
	return errors.Join(errs...)
}
