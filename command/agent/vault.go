package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// openVault makes the connections to Vault. It makes no request.
func (a *Agent) openVault() error {
	if !a.set.DetectsVault() {
		return nil
	}
	settings := a.set.VaultSettings()
	if len(settings) > 1 {
		a.log.Warn("multiple Vault configurations: the clusters other than default are detected only")
	}
	for _, s := range settings {
		c, err := vault.New(s)
		if err != nil {
			return fmt.Errorf("vault %q: %w", s.Name, err)
		}
		a.vault = append(a.vault, c)
	}
	return nil
}

// reloadVault applies the vault blocks of new settings. Other clusters, and enabled, need a restart. The error of a cluster
// does not prevent the others.
func (a *Agent) reloadVault(set *config.Settings) (err error) {
	for _, s := range set.VaultSettings() {
		at := slices.IndexFunc(a.vault, func(c *vault.Cluster) bool { return c.Name() == s.Name })
		if at < 0 {
			continue
		}
		if bad := a.vault[at].Replace(s); bad != nil {
			err = errors.Join(err, fmt.Errorf("vault %q: %w", s.Name, bad))
		}
	}
	return err
}
