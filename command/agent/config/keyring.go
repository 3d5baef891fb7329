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
// provider is active by default. A transit provider without a token has that of the vault block of the default cluster.
func (s *Settings) keyrings() []kms.Config {
	var out []kms.Config
	for _, id := range slices.Sorted(maps.Keys(s.Keyring)) {
		c := s.Keyring[id].config()
		if v := s.defaultVault(); c.Provider == string(rootkey.KEKProviderVaultTransit) && v != nil && v.Token != "" && c.Keys["token"] == "" {
			if c.Keys == nil {
				c.Keys = map[string]string{}
			}
			c.Keys["token"] = v.Token
		}
		out = append(out, c)
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
