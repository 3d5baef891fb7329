package exec2_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func sh(f *fixture, script string) *drivers.TaskConfig {
	return f.task("/bin/sh", "-c", script)
}

func TestRun(t *testing.T) {
	f := newFixture(t, nil)
	tests := []struct {
		name, script string
		code         int
		stdout       string
	}{
		{"exit code", "exit 7", 7, ""},
		{"identity", "id -u; id -g; id -G", 0, "88002\n88002\n88002\n"},
		{"environment", "echo $USER $HOME; env | grep -c ^LD_", 1, "nomad-88003 /nonexistent\n0\n"},
		{"tmp", `f=$(mktemp) && echo "$f"`, 0, "/web/tmp/tmp."},
		{"stdout again", "echo again > /dev/stdout", 0, "again\n"},
		{"pipes", "seq 3 | wc -l", 0, "3\n"},
		{"write own", "echo x > $NOMAD_TASK_DIR/f && echo x > $NOMAD_ALLOC_DIR/f && echo x > $NOMAD_SECRETS_DIR/f && echo done", 0, "done"},
		{"killed", "kill -9 $$", 137, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := sh(f, tt.script)
			cfg.Env["LD_PRELOAD"] = "/evil.so"
			out := f.run(cfg)
			out.Want(t, tt.code, tt.stdout)
			if tt.name == "killed" && out.Signal != 9 {
				t.Errorf("signal = %d, want 9", out.Signal)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	f := newFixture(t, nil)
	other := sh(f, "true")
	secret := filepath.Join(other.SecretsDir, "nomad_token")
	if err := os.WriteFile(secret, []byte("other's secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(f.dir, "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"shadow": "/etc/shadow", "passwd": "/etc/passwd", "other's secrets": secret, "outside": outside, "root": "/", "proc": "/proc/1/status",
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			out := f.run(f.task("/bin/cat", path))
			if out.ExitCode == 0 || out.Stdout != "" {
				t.Errorf("cat %s: exit %d, stdout %q, want a refusal", path, out.ExitCode, out.Stdout)
			}
		})
	}
	t.Run("unveiled", func(t *testing.T) {
		f.t = t
		cfg := f.task("")
		f.config(cfg, "cat", []string{outside}, "r:"+outside)
		f.run(cfg).Want(t, 0, "outside")
	})
}

func TestMissingProgram(t *testing.T) {
	f := newFixture(t, nil)
	for _, command := range []string{"no-such-program", "/no/such/program", "/etc/hosts"} {
		out := f.run(f.task(command))
		if out.ExitCode != 127 || !strings.Contains(out.Stderr, "failed to execute command") {
			t.Errorf("%s: exit %d, stderr %q, want 127 and the reason", command, out.ExitCode, out.Stderr)
		}
	}
}

func TestWithoutDefaults(t *testing.T) {
	f := newFixture(t, settings{"unveil_defaults": cty.False})
	out := f.run(f.task("/bin/true"))
	if out.ExitCode != 127 {
		t.Errorf("exit = %d, want 127: nothing is unveiled", out.ExitCode)
	}
}

// TestSandbox tries operations that must fail in the sandbox, and must succeed without it.
func TestSandbox(t *testing.T) {
	f := newFixture(t, nil)
	elsewhere, err := os.MkdirTemp("/var/tmp", "exec2-test-") // /tmp is not the host's
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(elsewhere)
	if err := os.Chmod(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(elsewhere, "victim")
	if err := os.WriteFile(victim, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	name := "open-nomad-test-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	shm, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.SysvShmCtl(shm, unix.IPC_RMID, nil)
	self := strconv.Itoa(os.Getpid())
	tests := []struct {
		probe []string
		want  string
	}{
		{[]string{"abstract", name}, "operation not permitted"},
		{[]string{"signal", self}, "no such process"},
		{[]string{"chmod", victim}, "operation not permitted"},
		{[]string{"userns"}, "operation not permitted"},
		{[]string{"clone-userns"}, "operation not permitted"},
		{[]string{"clone3"}, "function not implemented"},
		{[]string{"mptcp"}, "protocol not supported"},
		{[]string{"tcp"}, "allowed"},
		{[]string{"raw-socket"}, "operation not permitted"},
		{[]string{"odd-family"}, "address family not supported"},
		{[]string{"io_uring"}, "operation not permitted"},
		{[]string{"keyctl"}, "operation not permitted"},
		{[]string{"mount"}, "operation not permitted"},
		{[]string{"bpf"}, "operation not permitted"},
		{[]string{"userfaultfd"}, "operation not permitted"},
		{[]string{"ptrace", self}, "operation not permitted"},
		{[]string{"shm", strconv.Itoa(shm)}, "invalid argument"},
		{[]string{"read", "/proc/" + self + "/environ"}, "no such file or directory"},
		{[]string{"signal", "1"}, "operation not permitted"}, // its own init
		{[]string{"read", "/proc/1/environ"}, "no such file or directory"},
		{[]string{"exec", "/bin/true"}, "allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.probe[0], func(t *testing.T) {
			f.t = t
			f.run(f.probeTask(tt.probe...)).Want(t, 0, tt.want)
		})
	}
}

func TestCredentials(t *testing.T) {
	f := newFixture(t, nil)
	out := f.run(f.probeTask("status"))
	fields := map[string]string{}
	for line := range strings.Lines(out.Stdout) {
		k, v, _ := strings.Cut(line, ":")
		fields[k] = strings.Join(strings.Fields(v), " ")
	}
	for k, want := range map[string]string{
		"Uid": "88001 88001 88001 88001", "Gid": "88001 88001 88001 88001", "Groups": "",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got, ok := fields[k]; !ok || got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
}

func TestDescriptors(t *testing.T) {
	f := newFixture(t, nil)
	out := f.run(f.probeTask("fds"))
	if want := "fd 0\nfd 1\nfd 2\n"; out.Stdout != want {
		t.Errorf("open descriptors = %q, want %q", out.Stdout, want)
	}
}

func TestRefusals(t *testing.T) {
	f := newFixture(t, settings{"unveil_by_task": cty.False})
	locked := filepath.Join(f.dir, "locked")
	tests := []struct {
		name string
		edit func(*drivers.TaskConfig)
		want string
	}{
		{"root", func(c *drivers.TaskConfig) { c.User = "root" }, "allow_root"},
		{"uid 0", func(c *drivers.TaskConfig) { c.User = "0" }, "allow_root"},
		{"no user", func(c *drivers.TaskConfig) { c.User = "" }, "user: the task has no user"},
		{"unknown user", func(c *drivers.TaskConfig) { c.User = "no-such-user" }, "no-such-user"},
		{"unveil", func(c *drivers.TaskConfig) { f.config(c, "true", nil, "r:/etc") }, "does not allow"},
		{"modes", func(c *drivers.TaskConfig) { f.config(c, "true", nil, "q:/etc") }, "modes"},
		{"no network namespace", func(c *drivers.TaskConfig) { c.NetNS = "/run/netns/x" }, "join network namespace /run/netns/x: open"},
		{"unreachable", func(c *drivers.TaskConfig) {
			if err := os.Mkdir(locked, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(c.AllocDir, filepath.Join(locked, "a")); err != nil {
				t.Fatal(err)
			}
			was := c.AllocDir
			for _, p := range []*string{&c.AllocDir, &c.TaskDir, &c.LocalDir, &c.SharedDir, &c.SecretsDir, &c.LogDir} {
				*p = strings.Replace(*p, was, locked+"/a", 1)
			}
		}, "cannot be entered"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := f.task("/bin/true")
			tt.edit(cfg)
			_, err := f.StartTask(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("StartTask() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestPlantedLink replaces a directory of the task by a link, as an earlier start could have done.
func TestPlantedLink(t *testing.T) {
	f := newFixture(t, nil)
	target := filepath.Join(f.dir, "target")
	testtask.MakeDir(t, target)
	for _, dir := range []string{"local", "secrets", "logs"} {
		t.Run(dir, func(t *testing.T) {
			cfg := sh(f, "true")
			at := map[string]string{"local": cfg.LocalDir, "secrets": cfg.SecretsDir, "logs": cfg.LogDir}[dir]
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, at); err != nil {
				t.Fatal(err)
			}
			if _, err := f.StartTask(t.Context(), cfg); err == nil {
				t.Error("StartTask() = nil, want an error: the directory is a link")
			}
			st, err := os.Stat(target)
			if err != nil {
				t.Fatal(err)
			}
			if st.Sys().(*unixStat).Uid != 0 || st.Mode().Perm() != 0o777 {
				t.Errorf("target was changed: %v", st.Mode())
			}
		})
	}
}

// TestGroup checks that the task's group has the limits, and that no group remains.
func TestGroup(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("")
	f.config(cfg, "cat", []string{"/proc/self/cgroup"}, "r:/proc")
	out := f.run(cfg)
	out.Want(t, 0, "/nomad-test.slice/share.slice/"+cfg.AllocID+".web.scope")
	left, err := filepath.Glob("/sys/fs/cgroup/*/nomad-test.slice/share.slice/" + cfg.AllocID + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("groups left behind: %v %v", left, err)
	}
}

func TestFingerprint(t *testing.T) {
	f := newFixture(t, nil)
	if got := fingerprint(t, f.Driver); got.Health != drivers.HealthHealthy || got.Attributes["driver.exec2.unveil.tasks"] != "true" {
		t.Errorf("fingerprint = %+v, want healthy", got)
	}
	if err := f.SetConfig(cty.ObjectVal(settings{"require_abi": cty.NumberIntVal(99)})); err != nil {
		t.Fatal(err)
	}
	if got := fingerprint(t, f.Driver); got.Health != drivers.HealthUnhealthy || !strings.Contains(got.Description, "require_abi") {
		t.Errorf("fingerprint = %+v, want unhealthy for want of a newer Landlock", got)
	}
	if _, err := f.StartTask(t.Context(), f.task("/bin/true")); err == nil {
		t.Error("StartTask() on an unhealthy node = nil, want an error")
	}
}

func fingerprint(t *testing.T, d *exec2.Driver) drivers.Fingerprint {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return <-d.Fingerprint(ctx)
}

// TestProcessLimit has a task fork without end.
func TestProcessLimit(t *testing.T) {
	f := newFixture(t, settings{"pids_limit": cty.NumberIntVal(20)})
	out := f.run(sh(f, `n=0; while [ $n -lt 60 ]; do sleep 1000 & n=$((n+1)); done; echo all`))
	if strings.Contains(out.Stdout, "all") || !strings.Contains(out.Stderr, "fork") {
		t.Errorf("stdout %q, stderr %q: 60 processes were started, 20 are allowed", out.Stdout, out.Stderr)
	}
	if out.ForksDenied == 0 {
		t.Error("the exit has no denied forks")
	}
	f = newFixture(t, nil)
	f.run(sh(f, "for i in $(seq 30); do sleep 0.2 & done; wait; echo all")).Want(t, 0, "all")
}
