package config

import (
	"errors"
	"os"
	"slices"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/client/fingerprint/consul"
	"github.com/open-nomad/open-nomad/client/fingerprint/vault"
)

// laterFingerprinters are fingerprinters of Nomad that this project does not implement yet.
var laterFingerprinters = []string{"secrets_plugins"}

// knownFingerprinters returns an error if an option names an unknown fingerprinter.
func (s *Settings) knownFingerprinters() error {
	known := slices.Concat(fingerprint.Names(), cloud.Names(), laterFingerprinters, []string{client.PluginFingerprinter, consul.Fingerprinter,
		vault.Fingerprinter})
	for _, name := range slices.Concat(s.allowedFingerprinters(), s.deniedFingerprinters()) {
		if !slices.Contains(known, name) {
			return s.Fault("client.options", "unknown fingerprinter %q", name)
		}
	}
	return nil
}

func (s *Settings) allowedFingerprinters() []string {
	return list(s.option("fingerprint.allowlist", "fingerprint.whitelist"))
}

func (s *Settings) deniedFingerprinters() []string {
	return list(s.option("fingerprint.denylist", "fingerprint.blacklist"))
}

// clouds returns the cloud providers whose fingerprinters the lists allow.
func (s *Settings) clouds() []cloud.Provider {
	lists := fingerprint.Config{Allow: s.allowedFingerprinters(), Deny: s.deniedFingerprinters()}
	var out []cloud.Provider
	for _, name := range cloud.Names() {
		if lists.Allows(name) {
			out = append(out, s.cloud(name))
		}
	}
	return out
}

// cloud returns the settings of the fingerprinter of a cloud provider.
func (s *Settings) cloud(name string) cloud.Provider {
	p := cloud.Provider{Name: name, URL: os.Getenv(cloud.URLVariable(name))}
	if f := s.Client.Fingerprint[name]; f != nil {
		p.RetryAttempts, p.RetryInterval, p.ExitOnFailure = f.RetryAttempts, f.RetryInterval, f.ExitOnFailure
	}
	return p
}

// checkClouds checks the fingerprint blocks and the addresses of the metadata services.
func (s *Settings) checkClouds() error {
	var errs []error
	for name := range s.Client.Fingerprint {
		if err := s.cloud(name).Check(); err != nil {
			errs = append(errs, s.Fault("client.fingerprint."+name, "%v", err))
		}
	}
	for _, p := range s.clouds() {
		if _, set := s.Client.Fingerprint[p.Name]; set {
			continue // checked above
		}
		if err := p.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
