package drivers

import (
	"fmt"
	"strconv"

	"github.com/hashicorp/hcl/v2/hcldec"
)

// LegacyOption is the option of a plugin block with which an instance runs tasks that need privilege
// without privileged = true. Servers may add it to such tasks, so the instance also runs them with it.
const LegacyOption = "legacy_privileged_behavior"

// LegacyKey is the key of the attribute that reports whether the instance has LegacyOption.
const LegacyKey = "privileged.legacy"

// Privilege holds the rules of an instance of a driver for privileged tasks. With the zero value, the
// instance runs no task with privileged = true, and none of its tasks needs it.
type Privilege struct {
	// Offered means that the instance runs tasks with privileged = true.
	Offered bool
	// Legacy means that tasks that need privilege run with and without privileged = true.
	Legacy bool
	// Needs is Kind.NeedsPrivilege with the configuration of the instance, for interpolated config
	// blocks. It may be nil.
	Needs func(config map[string]any) string
}

// Privileger is implemented by drivers that run privileged tasks, or whose tasks may need
// privilege. A driver without it has the zero Privilege.
type Privileger interface {
	// Privilege returns the rules of the instance. They do not change after SetConfig.
	Privilege() Privilege
}

// PrivilegeOf returns the rules of an instance.
func PrivilegeOf(d Driver) Privilege {
	if p, ok := d.(Privileger); ok {
		return p.Privilege()
	}
	return Privilege{}
}

// Check returns an error if the instance must not run a task with this config block. The config is
// interpolated.
func (p Privilege) Check(instance string, privileged bool, config map[string]any) error {
	if privileged {
		if !p.Offered && !p.Legacy {
			return fmt.Errorf("privileged = true: driver %q does not offer privilege on this node", instance)
		}
		return nil
	}
	if p.Legacy || p.Needs == nil {
		return nil
	}
	if why := p.Needs(config); why != "" {
		return fmt.Errorf("driver %q needs privileged = true in the task: %s", instance, why)
	}
	return nil
}

// Attributes sets the node attributes of the rules. It removes those that the fingerprint of a
// driver without these rules contains.
func (p Privilege) Attributes(instance string, attributes map[string]string) {
	for key, on := range map[string]bool{PrivilegedKey: p.Offered, LegacyKey: p.Legacy} {
		if name := Attribute(instance, key); on {
			attributes[name] = strconv.FormatBool(true)
		} else {
			delete(attributes, name)
		}
	}
}

// Privileged reports whether instances of the kind can run tasks with privileged = true.
func (k *Kind) Privileged() bool { return k.NeedsPrivilege != nil }

// Unconfined reports whether every task of the kind needs privilege, whatever its config. Each healthy
// instance of such a kind offers privilege.
func (k *Kind) Unconfined() bool { return k.Privileged() && k.NeedsPrivilege(nil) != "" }

// HasLegacyOption reports whether the plugin blocks of the kind have LegacyOption.
func (k *Kind) HasLegacyOption() bool {
	spec, _ := k.ConfigSpec.(hcldec.ObjectSpec)
	return spec[LegacyOption] != nil
}
