package exec2_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// session runs a shell in the sandbox of a task.
func (f *fixture) session(id, script string, tty bool) (code int, stdout, stderr string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	exit, err := f.ExecTask(ctx, id,
		&drivers.ExecOptions{Command: []string{"sh", "-c", script}, Tty: tty, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
			Env: map[string]string{"PATH": "/usr/bin:/bin", "FROM_CLIENT": "now", "LD_PRELOAD": "/x.so", "DISPLAY": ":0"}})
	if err != nil {
		f.t.Fatalf("ExecTask(%q) = %v", script, err)
	}
	return exit.ExitCode, out.String(), errs.String()
}

// living starts a task that runs until the test ends it, and returns its PID.
func (f *fixture) living(unveil ...string) (cfg *drivers.TaskConfig, pid string) {
	f.t.Helper()
	cfg = f.task("")
	f.config(cfg, "sleep", []string{"1000"}, unveil...)
	if _, err := f.StartTask(f.t.Context(), cfg); err != nil {
		f.t.Fatalf("StartTask() = %v", err)
	}
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return cfg, status.Attributes["pid"]
}

// The kernel reports the same for a session as for its task.
func TestExecIsAsTheTask(t *testing.T) {
	f := newFixture(t, nil)
	cfg, pid := f.living("r:/proc")
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		want, err := os.Readlink("/proc/" + pid + "/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _ := f.session(cfg.ID, "readlink /proc/self/ns/"+ns, false); strings.TrimSpace(got) != want {
			t.Errorf("namespace %s is %s, want the task's %s", ns, got, want)
		}
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := f.session(cfg.ID, "exec cat /proc/self/status", false)
	for _, key := range []string{"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
		"Seccomp_filters", "Cpus_allowed"} {
		if a, b := line(string(status), key), line(got, key); a != b || a == "" && key != "Groups" {
			t.Errorf("%s is %q, want the task's %q", key, b, a)
		}
	}
	for _, file := range []string{"limits", "cgroup", "oom_score_adj"} {
		want, err := os.ReadFile("/proc/" + pid + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _ := f.session(cfg.ID, "exec cat /proc/self/"+file, false); got != string(want) {
			t.Errorf("%s is\n%s\nwant the task's\n%s", file, got, want)
		}
	}
}

func line(text, key string) string {
	for l := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(l, ":"); ok && name == key {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// A session is restricted by the task's sandbox.
func TestExecIsConfined(t *testing.T) {
	f := newFixture(t, nil)
	cfg, pid := f.living()
	for script, want := range map[string]int{
		"cat /etc/passwd": 1, "ls /root": 2, "cat /proc/1/environ": 1, "ls /var": 2,
		"echo x > $0-no 2>/dev/null; echo x > /etc/x": 2, "unshare -U true": 1, "mount -t tmpfs none /mnt": 32,
		"kill -0 " + fmt.Sprint(os.Getpid()): 1, "cat /proc/" + pid + "/environ": 1, "echo x > " + cfg.TaskDir + "/local/x && cat " +
			cfg.TaskDir + "/local/x": 0,
		"exec 3>/dev/stdout; echo x >&3; echo y > /dev/stderr; read x < /dev/stdin; true": 0,
	} {
		for _, tty := range []bool{false, true} {
			if script == "exec 3>/dev/stdout; echo x >&3; echo y > /dev/stderr; read x < /dev/stdin; true" && tty {
				continue // no terminal device is unveiled
			}
			if code, out, errs := f.session(cfg.ID, script, tty); code != want {
				t.Errorf("%s (terminal: %v) ends with %d, want %d: %s%s", script, tty, code, want, out, errs)
			}
		}
	}
	_, env, _ := f.session(cfg.ID, "env | sort | grep -v '^_='", false)
	want := fmt.Sprintf("FROM_CLIENT=now\nHOME=/nonexistent\nPATH=/usr/bin:/bin\nPWD=%s\nTMPDIR=%s/tmp\nUSER=%s\n", cfg.TaskDir, cfg.TaskDir,
		cfg.User)
	if env != want {
		t.Errorf("environment:\n%swant:\n%s", env, want)
	}
	if _, fds, _ := f.session(cfg.ID,
		"ls /proc/self/fd 2>/dev/null; for n in 3 4 5 6 7 8 9; do (eval \"true >&$n\") 2>/dev/null && echo open $n; done; true",
		false); fds != "" {
		t.Errorf("descriptors are left open: %s", fds)
	}
}

// The terminal is the controlling one of the session, and gives no access to other terminals.
func TestExecTerminal(t *testing.T) {
	f := newFixture(t, nil)
	cfg, _ := f.living("r:/proc")
	code, out, _ := f.session(cfg.ID, `test -t 0 && test -t 1 && test -t 2 || echo none; stty -a | head -1 >/dev/null && echo stty
		set -- $(cat /proc/self/stat | sed 's/.*) //'); test "$5" != 0 && echo controlled; test "$4" = $$ && echo leader
		ls /dev/pts >/dev/null 2>&1 && echo others; true`, true)
	if got := strings.ReplaceAll(out, "\r", ""); code != 0 || got != "stty\ncontrolled\nleader\n" {
		t.Errorf("exit %d: %q", code, got)
	}
}

// Sessions count against the task's limits.
func TestExecCountsInTheTask(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("")
	f.config(cfg, "sleep", []string{"1000"})
	f.set(cfg, map[string]any{"pids_limit": 20})
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	code, out, errs := f.session(cfg.ID, "for i in $(seq 40); do sleep 1000 & done; echo all", false)
	if strings.Contains(out, "all") || code == 0 || !strings.Contains(strings.ToLower(errs), "fork") {
		t.Errorf("40 processes in a session of a task with a limit of 20: exit %d, %q, %q", code, out, errs)
	}
	if err := f.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Error(err)
	}
	if _, err := f.ExecTask(t.Context(), cfg.ID,
		&drivers.ExecOptions{Command: []string{"true"}, Stdin: strings.NewReader(""), Stdout: io.Discard,
			Stderr: io.Discard}); err != drivers.ErrTaskNotFound {
		t.Errorf("in a task that has ended: %v", err)
	}
}

// A task may remove or replace granted paths. Its sessions still start without them, and reach no
// other path.
func TestExecAfterTheTaskMoved(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.task("")
	f.config(cfg, "sh", []string{"-c", "rm -rf local && ln -s /etc local && exec sleep 1000"})
	if err := os.Chmod(cfg.TaskDir, 0o777); err != nil {
		t.Fatal(err)
	}
	f.set(cfg, map[string]any{"unveil": []string{"rwxc:" + cfg.TaskDir}})
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(2 * time.Minute)
	for moved := 1; moved != 0; moved, _, _ = f.session(cfg.ID, "test -L local", false) {
		if time.Now().After(late) {
			t.Fatal("the task did not move its directories")
		}
	}
	if code, out, errs := f.session(cfg.ID, "pwd; cat local/passwd", false); code != 1 || strings.TrimSpace(out) != cfg.TaskDir {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

// sessionsAsDeclared runs sessions of a task of an agent without root.
func sessionsAsDeclared(t *testing.T, f *fixture, own bool) {
	t.Helper()
	cfg, pid := f.living("r:/proc")
	for _, ns := range []string{"ipc", "mnt", "net", "pid", "user"} {
		want, err := os.Readlink("/proc/" + pid + "/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, errs := f.session(cfg.ID, "readlink /proc/self/ns/"+ns, false); strings.TrimSpace(got) != want {
			t.Errorf("namespace %s is %s, want the task's %s (own: %v) %s", ns, got, want, own, errs)
		}
	}
	if code, out, _ := f.session(cfg.ID, "cat /etc/passwd; unshare -U true && echo user; exit 3", true); code != 3 ||
		strings.Contains(out, "root:") || strings.Contains(out, "user\r\n") {
		t.Errorf("a session is not confined: %d %q", code, out)
	}
	if err := f.StopTask(t.Context(), cfg.ID, 0, ""); err != nil {
		t.Error(err)
	}
}
