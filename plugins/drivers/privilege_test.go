package drivers_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestPrivilegeCheck checks which tasks an instance refuses.
func TestPrivilegeCheck(t *testing.T) {
	needs := func(config map[string]any) string {
		if config["power"] == true {
			return "power = true"
		}
		return ""
	}
	plain, power := map[string]any{}, map[string]any{"power": true}
	for name, tc := range map[string]struct {
		rules      drivers.Privilege
		privileged bool
		config     map[string]any
		want       string
	}{
		"without rules": {drivers.Privilege{}, false, power, ""},
		"without rules, privileged": {drivers.Privilege{}, true, plain,
			`privileged = true: driver "box" does not offer privilege on this node`},
		"nothing needed": {drivers.Privilege{Needs: needs}, false, plain, ""},
		"needed": {drivers.Privilege{Needs: needs}, false, power,
			`driver "box" needs privileged = true in the task: power = true`},
		"needed, though offered":             {drivers.Privilege{Needs: needs, Offered: true}, false, power, "needs privileged = true"},
		"needed, legacy":                     {drivers.Privilege{Needs: needs, Legacy: true}, false, power, ""},
		"privileged":                         {drivers.Privilege{Needs: needs, Offered: true}, true, power, ""},
		"privileged, nothing needed":         {drivers.Privilege{Needs: needs, Offered: true}, true, plain, ""},
		"privileged, not offered":            {drivers.Privilege{Needs: needs}, true, power, "does not offer privilege"},
		"privileged, not offered but legacy": {drivers.Privilege{Needs: needs, Legacy: true}, true, power, ""},
	} {
		err := tc.rules.Check("box", tc.privileged, tc.config)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Check() = %v, want %q", name, err, tc.want)
		}
	}
}

// TestPrivilegeAttributes checks that only the rules set the attributes, whatever a fingerprint contains.
func TestPrivilegeAttributes(t *testing.T) {
	for want, rules := range map[string]drivers.Privilege{
		"": {}, "enabled": {Offered: true}, "legacy": {Legacy: true}, "enabled legacy": {Offered: true, Legacy: true},
	} {
		got := map[string]string{"driver.box": "1", "driver.box.privileged.enabled": "false", "driver.box.privileged.legacy": "1",
			"driver.other.privileged.enabled": "1"}
		rules.Attributes("box", got)
		all := map[string]string{"driver.box": "1", "driver.other.privileged.enabled": "1"}
		for _, key := range strings.Fields(want) {
			all["driver.box.privileged."+key] = "true"
		}
		if !maps.Equal(got, all) {
			t.Errorf("%+v: attributes %v, want %v", rules, got, all)
		}
	}
}
