package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Kind returns the description of the driver.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Driver, Aliases: []string{Alias}, ConfigSpec: PluginSpec, TaskSpec: TaskSpec,
		Capabilities: drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationUnveil,
			DynamicWorkloadUsers: true, Mounts: true, Devices: true, Networks: []string{"host", "group"}, Hostname: true},
		KillSignal: syscall.SIGINT, Unveils: true, Grouped: true,
		CheckConfig: drivers.CheckWith(PluginSpec, DecodePlugin),
		CheckTask: func(user string, config map[string]any) error {
			return errors.Join(CheckTask(config), checkUser(user))
		},
		WarnTask: warnings,
		Least: func(config map[string]any) map[string]int {
			if abi := TaskABI(config); abi > 0 {
				return map[string]int{drivers.LandlockKey: abi}
			}
			return nil
		},
		Isolates: isolates,
	}
}

// warnings returns the warnings about a task: valid, but probably a mistake.
func warnings(user string, _ map[string]any) []string {
	if user != "root" && user != "0" {
		return nil
	}
	return []string{fmt.Sprintf("user %q: only nodes with allow_root in the plugin config of the driver run it", user)}
}

// dynamicPrefix is the prefix of the names of dynamic users, which a client assigns to one
// allocation.
const dynamicPrefix = "nomad-"

// maxUID is the highest valid uid. The kernel uses the next value for "no change".
const maxUID = 1<<32 - 2

// checkUser rejects users that cannot exist on a node.
func checkUser(user string) error {
	if uid, dynamic := strings.CutPrefix(user, dynamicPrefix); dynamic && number(uid) {
		return fmt.Errorf("user %q is assigned by clients and cannot be requested: remove user", user)
	}
	if !number(user) {
		return nil
	}
	if uid, err := strconv.ParseUint(user, 10, 64); err != nil || uid > maxUID {
		return fmt.Errorf("user %q is not a uid: the maximum is %d", user, maxUID)
	}
	return nil
}

func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
