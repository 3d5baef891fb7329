package rawexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"
)

// accounts marks the test's second run, in a mount namespace with its own users and groups.
const accounts = "RAWEXEC_TEST_ACCOUNTS"

// A user is denied by any of the task's groups, primary or supplementary (/etc/group), however the
// job names the user.
func TestDeniedGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: users, and a mount namespace")
	}
	if os.Getenv(accounts) == "" {
		withAccounts(t)
		return
	}
	const user, uid, gid, extra = "denials-test", 88301, 88302, 88303
	for _, tt := range []struct {
		user, uids, gids string
		denied           bool
	}{
		{user, "", fmt.Sprint(extra), true},
		{fmt.Sprint(uid), "", fmt.Sprint(extra), true},
		{user, "", "1-99999", true},
		{user, "", fmt.Sprint(gid), true},
		{fmt.Sprint(uid), "", fmt.Sprint(gid), true},
		{user, fmt.Sprint(uid), "", true},
		{fmt.Sprint(uid), fmt.Sprint(uid), "", true},
		{fmt.Sprintf("%d:%d", uid, gid), "", "", true},
		{fmt.Sprintf("nomad-%d", uid), "", fmt.Sprint(uid), true},
		{"", "", "0", true},
		{user, "0", "0,88304", false},
		{fmt.Sprint(uid), "", "", false},
	} {
		t.Run(fmt.Sprintf("user %q, denied uids %q, gids %q", tt.user, tt.uids, tt.gids), func(t *testing.T) {
			d := newDriver(t, map[string]cty.Value{"enabled": cty.True,
				"denied_host_uids": cty.StringVal(tt.uids), "denied_host_gids": cty.StringVal(tt.gids)})
			cfg := task(t, "id -G")
			openUp(t, cfg.AllocDir)
			cfg.User = tt.user
			if tt.denied {
				if _, err := d.StartTask(t.Context(), cfg); err == nil {
					t.Error("StartTask() = nil, want a refusal")
				}
				return
			}
			if _, out := runTask(t, d, cfg); strings.TrimSpace(out) != fmt.Sprintf("%d %d", gid, extra) {
				t.Errorf("groups of the task = %q, want %d %d", out, gid, extra)
			}
		})
	}
}

// The agent's own groups count if a task keeps its user.
func TestDeniedGroupsOfTheAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to have another group")
	}
	if os.Getenv(accounts) == "" {
		withAccounts(t, 88303)
		return
	}
	for _, user := range []string{"", "root", "0"} {
		d := newDriver(t, map[string]cty.Value{"enabled": cty.True, "denied_host_gids": cty.StringVal("88303")})
		cfg := task(t, "id -G")
		cfg.User = user
		if _, err := d.StartTask(t.Context(), cfg); err == nil {
			t.Errorf("StartTask() as user %q = nil, want a refusal: the agent is in the group", user)
		}
	}
}

// withAccounts runs the test again, as root with additional groups, where a user is in two groups.
func withAccounts(t *testing.T, groups ...uint32) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), accounts+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Credential: &syscall.Credential{Groups: groups}}
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
}

// init mounts the users and groups of the second run over the host's.
func init() {
	dir := os.Getenv(accounts)
	if dir == "" || len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], "-test.") {
		return
	}
	for name, line := range map[string]string{
		"passwd": "denials-test:x:88301:88302::/nonexistent:/bin/sh\n",
		"group":  "denials-own:x:88302:\ndenials-extra:x:88303:denials-test\n",
	} {
		text, err := os.ReadFile("/etc/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), append(text, line...), 0o644)
		}
		if err == nil {
			err = unix.Mount(filepath.Join(dir, name), "/etc/"+name, "", unix.MS_BIND, "")
		}
		if err != nil {
			panic(err)
		}
	}
}
