package exec_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/exec"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestLevels compares the levels of tasks, on a node and as servers compute them, with the table of the page.
func TestLevels(t *testing.T) {
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	caps := []string{"net_admin"}
	all := []string{"all"}
	f := newFixture(t, block{"allow_caps": all})
	for name, tc := range map[string]struct {
		user   string
		config block
		want   drivers.Level
	}{
		"no options":        {"", block{"command": "x"}, drivers.LevelBaseline},
		"the highest":       {"", nil, drivers.LevelRestricted},
		"no capabilities":   {"", block{"cap_drop": all}, drivers.LevelRestricted},
		"the allowed one":   {"", block{"cap_drop": []any{"ALL"}, "cap_add": []any{"cap_net_bind_service"}}, drivers.LevelRestricted},
		"user":              {"nobody", block{"cap_drop": all}, drivers.LevelRestricted},
		"root":              {"root", block{"cap_drop": all}, drivers.LevelBaseline},
		"processes":         {"", block{"cap_drop": all, "pid_mode": "host"}, drivers.LevelHost},
		"IPC":               {"", block{"cap_drop": all, "ipc_mode": "host"}, drivers.LevelHost},
		"a mode, by a node": {"", block{"cap_drop": all, "ipc_mode": "${meta.mode}"}, drivers.LevelHost},
		"another one":       {"", block{"cap_add": caps}, drivers.LevelNone},
		"unknown":           {"", block{"cap_add": []any{"${meta.cap}"}}, drivers.LevelNone},
		"dropped by a node": {"", block{"cap_drop": "${meta.cap}"}, drivers.LevelBaseline},
	} {
		got, err := f.Isolates(tc.user, tc.config)
		if err != nil || got.Level() != tc.want {
			t.Errorf("%s: Isolates() = %s, %v, want %s; lacks %s", name, got.Level(), err, tc.want, drivers.Texts(got.Lacks(tc.want)))
		}
		if tc.config == nil {
			continue
		}
		if got := exec.Kind().Isolates(tc.user, tc.config).Level(); got != tc.want {
			t.Errorf("%s: for servers %s, want %s", name, got, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		plugin block
		want   drivers.Level
	}{
		"seccomp":      {block{"seccomp": false}, drivers.LevelHost},
		"landlock":     {block{"landlock": false}, drivers.LevelBaseline},
		"no_new_privs": {block{"no_new_privs": false, "landlock": false, "seccomp": false}, drivers.LevelHost},
		"nodev":        {block{"nodev": false}, drivers.LevelNone},
		"mode":         {block{"default_pid_mode": "host"}, drivers.LevelHost},
	} {
		d := f.configured(chroot.Config{}, tc.plugin)
		if got, err := d.Isolates("", block{"cap_drop": all}); err != nil || got.Level() != tc.want {
			t.Errorf("%s: Isolates() = %s, %v, want %s", name, got.Level(), err, tc.want)
		}
	}
}
