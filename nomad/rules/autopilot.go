package rules

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Autopilot rejects invalid values and the options that only Nomad Enterprise supports.
func Autopilot(c *nomad.AutopilotConfig) error {
	for _, paid := range []struct {
		set  bool
		name string
	}{
		{c.EnableRedundancyZones, "enable_redundancy_zones"},
		{c.DisableUpgradeMigration, "disable_upgrade_migration"},
		{c.EnableCustomUpgrades, "enable_custom_upgrades"},
	} {
		if paid.set {
			return apierror.Errorf(501, "autopilot %s is not available: it requires Nomad Enterprise", paid.name)
		}
	}
	switch {
	case c.LastContactThreshold <= 0:
		return apierror.Errorf(400, "autopilot last_contact_threshold must be above 0, or no server would be healthy")
	case c.ServerStabilizationTime < 0:
		return apierror.Errorf(400, "autopilot server_stabilization_time must not be negative")
	}
	return nil
}
