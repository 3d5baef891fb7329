package taskhook_test

import (
	"errors"
	"os"
	"testing"

	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad"
)

// TestDeniedUsers checks that a user is denied by each of its names, to the checked drivers only.
func TestDeniedUsers(t *testing.T) {
	rule := taskhook.DeniedUsers{Users: []string{"root", "Administrator"}, Drivers: []string{"exec", "exec-open"}}
	for name, tc := range map[string]struct {
		driver, user string
		want         string
	}{
		"root":           {"exec", "root", `validate: running as user "root" is disallowed`},
		"uid":            {"exec", "0", `validate: running as user "0" is disallowed`},
		"unknown user":   {"exec", "Administrator", `validate: running as user "Administrator" is disallowed`},
		"instance":       {"exec-open", "root", `validate: running as user "root" is disallowed`},
		"another user":   {"exec", "nobody", ""},
		"no user":        {"exec", "", ""},
		"another driver": {"raw_exec", "root", ""},
	} {
		cfg := config(&nomad.Task{Driver: tc.driver, User: tc.user})
		cfg.Denied = rule
		_, err := prestart(t, cfg, nil)
		fault, _ := errors.AsType[*taskhook.Fault](err)
		if tc.want == "" && err != nil || tc.want != "" && (fault == nil || fault.Type != nomad.TaskHookFailed || fault.Error() != tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestDefaultUser checks that a driver's default user gets the task's directories, and that the task's own has precedence.
func TestDefaultUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to change owners of files")
	}
	for user, want := range map[string]taskhook.Owner{"": {User: "nobody", UID: 65534, GID: 65534}, "root": {User: "root"}} {
		cfg := config(&nomad.Task{Driver: "exec", User: user})
		cfg.Capabilities.DefaultUser = "nobody"
		if got, err := prestart(t, cfg, nil); err != nil || got.owner != want {
			t.Errorf("user %q: owner = %+v, %v, want %+v", user, got.owner, err, want)
		}
	}
}
