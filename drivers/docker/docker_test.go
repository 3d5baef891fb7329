package docker_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A container runs with its output, its environment and its directories, and its result is reported.
func TestRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	exit, stdout, stderr := f.run("echo out $NOMAD_TASK_NAME; echo err >&2; echo x > /local/f; ls / | grep -x secrets; exit 3")
	if exit.ExitCode != 3 || exit.Signal != 0 || exit.Err == nil {
		t.Errorf("exit = %+v, want code 3 with an error", exit)
	}
	if stdout != "out web\nsecrets\n" || stderr != "err\n" {
		t.Errorf("output = %q, %q", stdout, stderr)
	}
}

// A task is stopped by its signal, or is killed after the timeout.
func TestStop(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		script, signal string
		timeout        time.Duration
		code           int
	}{
		"signal of the job":   {"trap 'exit 7' USR1; echo up; while :; do sleep 0.1; done", "SIGUSR1", 30 * time.Second, 7},
		"signal of the image": {"trap 'exit 8' TERM; echo up; while :; do sleep 0.1; done", "", 30 * time.Second, 8},
		"killed":              {"trap '' TERM; echo up; while :; do sleep 0.1; done", "", time.Second, 137},
		"killed, own signal":  {"trap '' INT; echo up; while :; do sleep 0.1; done", "SIGINT", 100 * time.Millisecond, 137},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell(c.script))
			f.start(cfg)
			testpace.Until(t, "the script runs", func() bool { out, _ := f.output(cfg); return out == "up\n" })
			if err := f.DestroyTask(cfg.ID, false); err == nil {
				t.Error("DestroyTask() of a running task without force = nil")
			}
			if err := f.StopTask(t.Context(), cfg.ID, c.timeout, c.signal); err != nil {
				t.Fatal(err)
			}
			if exit := f.wait(cfg.ID); exit.ExitCode != c.code {
				t.Errorf("exit = %+v, want code %d", exit, c.code)
			}
			if err := f.DestroyTask(cfg.ID, false); err != nil {
				t.Error(err)
			}
			if _, err := f.InspectTask(cfg.ID); !errors.Is(err, drivers.ErrTaskNotFound) {
				t.Errorf("InspectTask() of a destroyed task = %v", err)
			}
		})
	}
}

// A later agent finds its running and its ended tasks, with the output that was written meanwhile.
func TestRecover(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("echo one; until [ -e /local/go ]; do sleep 0.05; done; echo two; until [ -e /local/end ]; do sleep 0.05; done; echo three; exit 5"))
	h := f.start(cfg)
	testpace.Until(t, "the first line", func() bool { out, _ := f.output(cfg); return out == "one\n" })
	f.Abandon()
	f.write(cfg.LocalDir, "go", "")
	later := f.open(docker.Name, f.config)
	listed, err := later.ListTasks(t.Context())
	if err != nil || len(listed) != 1 || listed[0].ID != cfg.ID || listed[0].State != drivers.TaskRunning {
		t.Errorf("ListTasks() = %+v, %v", listed, err)
	}
	if err := later.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	status, err := later.InspectTask(cfg.ID)
	if err != nil || status.State != drivers.TaskRunning || status.Attributes["container_id"] == "" {
		t.Errorf("InspectTask() = %+v, %v", status, err)
	}
	testpace.Until(t, "the output from before and after", func() bool { out, _ := f.output(cfg); return out == "one\ntwo\n" })
	if list := f.messages(cfg.ID); len(list) != 1 || !strings.Contains(list[0], "agent was restarted") {
		t.Errorf("events = %q", list)
	}
	later.Abandon()
	f.write(cfg.LocalDir, "end", "")
	last := f.open(docker.Name, f.config)
	testpace.Until(t, "the end without an agent", func() bool {
		list, err := last.ListTasks(t.Context())
		return err == nil && len(list) == 1 && list[0].State == drivers.TaskExited
	})
	f.Driver = last
	if err := last.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if exit := f.wait(cfg.ID); exit.ExitCode != 5 {
		t.Errorf("exit = %+v, want code 5", exit)
	}
	if out, _ := f.output(cfg); out != "one\ntwo\nthree\n" {
		t.Errorf("output = %q", out)
	}
}

// What cannot be recovered is reported as missing only if the daemon says so, and is removed by its
// label.
func TestLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("sleep 1000"))
	h := f.start(cfg)
	f.Abandon()
	other := f.open("docker-other", f.config)
	if list, err := other.ListTasks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("ListTasks() of another instance = %v, %v", list, err)
	}
	if err := f.RecoverTask(t.Context(), &drivers.TaskHandle{Driver: "docker-other", TaskID: cfg.ID, State: h.State}); err == nil ||
		errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() of another instance's handle = %v", err)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Fatal(err)
	}
	if err := f.RecoverTask(t.Context(), h); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() of a removed container = %v", err)
	}
	if err := f.StopTask(t.Context(), cfg.ID, time.Second, ""); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("StopTask() of a removed container = %v", err)
	}
	started := f.task(shell("sleep 1000"))
	f.start(started)
	f.Abandon()
	if err := f.RecoverTask(t.Context(), &drivers.TaskHandle{Driver: docker.Name, TaskID: started.ID}); !errors.Is(err,
		drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() of an unfinished start = %v", err)
	}
	if list, err := f.ListTasks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("ListTasks() = %v, %v, want none", list, err)
	}
}

// A daemon that goes away makes the driver unhealthy; its tasks are found again when it is back.
func TestDaemonUnreachable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"allow_privileged": true, "volumes": block{"enabled": true}, "pids_limit": 100})
	prints := f.Fingerprint(t.Context())
	first := <-prints
	want := map[string]string{"driver.docker": "true", "driver.docker.os_type": "linux",
		"driver.docker.volumes.enabled": "true", "driver.docker.pids.limit": "100"}
	for name, value := range want {
		if first.Attributes[name] != value {
			t.Errorf("attribute %s = %q, want %q", name, first.Attributes[name], value)
		}
	}
	if first.Health != drivers.HealthHealthy || first.Attributes["driver.docker.version"] == "" ||
		!strings.Contains(first.Attributes["driver.docker.runtimes"], "runc") {
		t.Errorf("fingerprint = %+v", first)
	}
	cfg := f.task(shell("echo one; until [ -e /local/end ]; do sleep 0.05; done; echo two; exit 4"))
	h := f.start(cfg)
	testpace.Until(t, "the first line", func() bool { out, _ := f.output(cfg); return out == "one\n" })
	f.daemon.Stop(t)
	testpace.Until(t, "unhealthy", func() bool { return (<-prints).Health == drivers.HealthUnhealthy })
	if err := f.open(docker.Name, f.config).RecoverTask(t.Context(), h); err == nil || errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("RecoverTask() without the daemon = %v", err)
	}
	if err := f.StopTask(t.Context(), "other", time.Second, ""); err == nil || errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("StopTask() without the daemon = %v", err)
	}
	f.daemon.Restart(t)
	testpace.Until(t, "healthy", func() bool { return (<-prints).Health == drivers.HealthHealthy })
	f.write(cfg.LocalDir, "end", "")
	if exit := f.wait(cfg.ID); exit.ExitCode != 4 {
		t.Errorf("exit = %+v, want code 4", exit)
	}
	if out, _ := f.output(cfg); !strings.HasPrefix(out, "one\n") || !strings.HasSuffix(out, "two\n") {
		t.Errorf("output = %q", out)
	}
}

// A node without a daemon does not have the driver.
func TestNoDaemon(t *testing.T) {
	d := docker.New(docker.Config{Name: "docker", Log: slog.New(slog.DiscardHandler)})
	v, err := drivers.Decode(block{"endpoint": "unix://" + t.TempDir() + "/none"}, d.ConfigSpec())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetConfig(v); err != nil {
		t.Fatal(err)
	}
	if f := <-d.Fingerprint(t.Context()); f.Health != drivers.HealthUndetected || len(f.Attributes) != 0 {
		t.Errorf("fingerprint = %+v, want undetected without attributes", f)
	}
	if list, err := d.ListTasks(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("ListTasks() = %v, %v", list, err)
	}
}
