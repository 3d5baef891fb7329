package exec_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/exec"
)

// TestPluginFaults checks the errors of a plugin block, with which an agent does not start.
func TestPluginFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		give block
		want string
	}{
		"nothing":       {nil, ""},
		"accepted":      {block{"no_pivot_root": true, "denied_host_uids": "0,1-9", "allow_caps": []any{"all"}, "pids_limit": 0}, ""},
		"pid mode":      {block{"default_pid_mode": "x"}, `default_pid_mode must be "private" or "host", got "x"`},
		"ipc mode":      {block{"default_ipc_mode": "x"}, `default_ipc_mode must be "private" or "host", got "x"`},
		"capability":    {block{"allow_caps": []any{"chown", "x"}}, "allow_caps configured with capabilities not supported by system: x"},
		"bound of uids": {block{"denied_host_uids": "1,a-b"}, `invalid range deniedHostUIDs "a-b": range bound not valid`},
		"order of gids": {block{"denied_host_gids": "9-1"}, `invalid range deniedHostGIDs "9-1": lower bound cannot be greater than upper bound`},
		"processes":     {block{"pids_limit": -1}, "pids_limit: -1 is not between 0"},
		"privileges":    {block{"no_new_privs": false}, "no_new_privs = false needs seccomp = false and landlock = false"},
		"unknown":       {block{"allow_cap": []any{}}, `unknown argument "allow_cap"`},
	} {
		err := exec.Kind().CheckConfig(tc.give)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: CheckConfig() = %v, want %q", name, err, tc.want)
		}
	}
}

// TestCheckTask checks config blocks as servers do, with references that only a node knows.
func TestCheckTask(t *testing.T) {
	for name, tc := range map[string]struct {
		give block
		want string
	}{
		"references": {block{"command": "${NOMAD_TASK_DIR}/x", "work_dir": "${meta.dir}", "pid_mode": "${meta.mode}",
			"cap_add": []any{"${meta.cap}"}, "args": []any{"${NOMAD_PORT_http}"}}, ""},
		"mode":        {block{"command": "x", "pid_mode": "shared"}, "pid_mode must be"},
		"directory":   {block{"command": "x", "work_dir": "local"}, "work_dir must be absolute"},
		"no command":  {block{"args": []any{"x"}}, "command"},
		"empty":       {block{"command": ""}, "command is empty"},
		"unknown key": {block{"command": "x", "image": "y"}, `unknown argument "image"`},
	} {
		err := exec.Kind().CheckTask("", tc.give)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: CheckTask() = %v, want %q", name, err, tc.want)
		}
	}
}
