package config

import (
	"slices"
	"testing"
)

// TestDeniedUsers checks the defaults of the two options, and that instances of a checked driver are checked.
func TestDeniedUsers(t *testing.T) {
	for name, tc := range map[string]struct {
		text           string
		users, drivers []string
	}{
		"defaults": {"", []string{"root", "Administrator"}, []string{"exec", "qemu", "java"}},
		"options": {`client { options = { "user.denylist" = "postgres, root", "user.checked_drivers" = "raw_exec" } }`,
			[]string{"postgres", "root"}, []string{"raw_exec"}},
		"emptied": {`client { options = { "user.denylist" = "" } }`, nil, []string{"exec", "qemu", "java"}},
		"instance": {`plugin "exec-net" { backend = "exec" }`, []string{"root", "Administrator"},
			[]string{"exec", "qemu", "java", "exec-net"}},
	} {
		s, err := load(t, map[string]string{"a.hcl": minimal + tc.text})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.deniedUsers(); !slices.Equal(got.Users, tc.users) || !slices.Equal(got.Drivers, tc.drivers) {
			t.Errorf("%s: deniedUsers() = %+v, want %q and %q", name, got, tc.users, tc.drivers)
		}
	}
}

func TestChrootEnv(t *testing.T) {
	for text, want := range map[string]string{
		`client { chroot_env { "/usr" = "/usr" } }`:  "",
		`client { chroot_env { "/usr" = "/proc" } }`: "client.chroot_env",
		`client { chroot_env { "usr" = "/usr" } }`:   "client.chroot_env",
	} {
		s, err := load(t, map[string]string{"a.hcl": minimal + text})
		if (err == nil) != (want == "") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if want == "" && s.Client.ChrootEnv["/usr"] != "/usr" {
			t.Errorf("%s: chroot_env = %v", text, s.Client.ChrootEnv)
		}
	}
}
