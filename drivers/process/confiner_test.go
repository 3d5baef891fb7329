package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfine checks each layer of the sandbox of a sidecar.
func TestConfine(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	if err := os.WriteFile(filepath.Join(cfg.SecretsDir, "f"), []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	no := "0000000000000000"
	for _, tt := range []struct{ name, script, want string }{
		{"name and arguments", `echo "$0 $#"`, "sidecar 0\n"},
		{"environment", `env | sort`, "PATH=/usr/bin:/bin\nPWD=" + cfg.LocalDir + "\n"},
		{"user", "id -u; id -G", cfg.User[len("nomad-"):] + "\n" + cfg.User[len("nomad-"):] + "\n"},
		{"directory", "pwd", cfg.LocalDir + "\n"},
		{"capabilities", "grep ^Cap /proc/self/status | cut -f2 | xargs", strings.Join([]string{no, no, no, no, no}, " ") + "\n"},
		{"no_new_privs and seccomp", "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | xargs", "1 2\n"},
		{"processes", "echo /proc/[0-9]*", "/proc/2\n"},
		{"descriptors", "ls /proc/self/fd | xargs", "0 1 2 3\n"}, // 3 is that of ls
		{"OOM score", "cat /proc/self/oom_score_adj", "1000\n"},
		{"core dumps", "ulimit -c", "0\n"},
		{"its paths", "echo x > made && cat made", "x\n"},
		{"other paths", "cat /etc/passwd 2>/dev/null || echo denied", "denied\n"},
		{"hidden directory", "[ -d ../secrets ] && echo seen; [ -e ../secrets/f ] || echo empty", "seen\nempty\n"},
		{"other allocations", "[ -e ../../../other ] || echo hidden", "hidden\n"},
		{"temporary files", "[ -e /tmp/of-the-task ] && echo own", "own\n"},
		{"host sockets", "[ -e /run/lock ] || [ -e /run/mount ] || echo empty", "empty\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{filepath.Join(cfg.TaskDir, "tmp/of-the-task"), filepath.Join(f.dir, "other")} {
				if err := os.WriteFile(name, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := f.sidecar(cfg, tt.script+"; exit 3")
			s.Hide = []string{cfg.SecretsDir}
			if exit, out := f.run(cfg, s); out != tt.want || exit.ExitCode != 3 || exit.Signal != 0 || exit.OOMKilled {
				t.Errorf("output %q, want %q; exit %+v", out, tt.want, exit)
			}
		})
	}
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group of a task that never ran still exists: %q", dirs)
	}
}
