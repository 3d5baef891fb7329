package nomad

import (
	"fmt"
	"strconv"
	"strings"
)

// Two options of the config block of docker concern the rules of jobs. Servers read them from the tasks of every
// driver, because the kind of an instance is known on its nodes only. Drivers without these options refuse them.
const (
	optionNetworkMode     = "network_mode"
	optionMemoryHardLimit = "memory_hard_limit"
)

// NetworkMode returns the mode that a task has instead of that of its group, as a mode of a group. given is false if
// it has none. The mode is empty if it is not known before the start.
func (t *Task) NetworkMode() (mode string, given bool) {
	switch v := t.Config[optionNetworkMode].(type) {
	case nil:
		return "", false
	case string:
		switch {
		case v == "":
			return "", false
		case strings.Contains(v, "${"):
			return "", true
		case v == "default": // of the daemon: a bridge
			return NetworkModeBridge, true
		}
		return v, true
	}
	return "", true
}

// LeavesNetwork reports whether a task has another network than its group, and can reach others by it.
func (t *Task) LeavesNetwork() bool {
	mode, given := t.NetworkMode()
	return given && mode != NetworkModeNone
}

// HardMemoryMB returns the memory in MiB that a task can use by an option of its own, 0 for none.
func (t *Task) HardMemoryMB() int64 {
	v := t.Config[optionMemoryHardLimit]
	if v == nil {
		return 0
	}
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil || !(n > 0) { // the driver refuses it
		return 0
	}
	return int64(min(n, MemoryUnbounded))
}
