package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/pty"
)

// execDrivers is the configuration of clients whose tasks run commands.
const execDrivers = `plugin "raw_exec" {
  config {
    enabled = true
  }
}
telemetry {
  prometheus_metrics = true
}
`

// execJob returns a job with a task of each driver that supports exec.
func execJob(id string) *api.Job {
	job := harness.OneTask(id, "sleep", "600")
	raw := *job.TaskGroups[0].Tasks[0]
	raw.Name, raw.Driver, raw.Privileged = "raw", "raw_exec", true
	job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, &raw)
	return job
}

// bothRun registers such a job and waits until both tasks run.
func bothRun(t *testing.T, a *cluster.Agent, id string) *api.AllocationListStub {
	t.Helper()
	alloc := harness.Register(t, a, execJob(id), "running")
	harness.Within(t, 20*time.Second, "both tasks run", func() bool {
		now, _, err := a.Client.Allocations().Info(alloc.ID, nil)
		return err == nil && now.TaskStates["t"] != nil && now.TaskStates["t"].State == "running" && now.TaskStates["raw"] != nil &&
			now.TaskStates["raw"].State == "running"
	})
	return alloc
}

// runIn runs a shell in a task, through an agent.
func runIn(t *testing.T, a *cluster.Agent, alloc, task, script string, stdin io.Reader) (code int, stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	var out, errs bytes.Buffer
	code, err = a.Client.Allocations().Exec(ctx, &api.Allocation{ID: alloc}, task, false, []string{"sh", "-c", script}, stdin, &out, &errs,
		nil, nil)
	return code, out.String(), errs.String(), err
}

// Commands run in the tasks of a client through each agent of a cluster, with our api package and
// with the SDK.
func TestExecThroughACluster(t *testing.T) {
	harness.NeedsRoot(t)
	cfg := filepath.Join(harness.TempDir(t), "exec.hcl")
	harness.WriteFile(t, cfg, execDrivers)
	s := harness.StartServersWith(t, func(o *cluster.Options) { o.Args = append(o.Args, "-config="+cfg) })
	dir := filepath.Join(harness.Passable(t, harness.TempDir(t)), "client")
	cl := harness.StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-client", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg,
			fmt.Sprintf("-servers=127.0.0.1:%d", s.All[0].RPC)}})
	defer harness.PurgeAll(t, cl)
	alloc := bothRun(t, cl, "sidecar")
	for i, a := range append(s.All, cl) {
		for _, task := range []string{"t", "raw"} {
			code, out, errs, err := runIn(t, a, alloc.ID, task, `cat; echo "$NOMAD_TASK_NAME" >&2; exit 7`, strings.NewReader("hello"))
			if code != 7 || out != "hello" || errs != task+"\n" || err != nil {
				t.Errorf("agent %d, task %s: exit %d, %q, %q, %v", i, task, code, out, errs, err)
			}
			c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
			if err != nil {
				t.Fatal(err)
			}
			var sout, serrs bytes.Buffer
			code, err = c.Allocations().Exec(t.Context(), &sdk.Allocation{ID: alloc.ID, NodeID: alloc.NodeID}, task, false,
				[]string{"sh", "-c", "cat; echo err >&2; exit 7"},
				strings.NewReader("hello"), &sout, &serrs, nil, nil)
			if code != 7 || sout.String() != "hello" || serrs.String() != "err\n" || err != nil {
				t.Errorf("SDK at agent %d, task %s: exit %d, %q, %q, %v", i, task, code, &sout, &serrs, err)
			}
		}
	}
	muchThrough(t, s.All[1], alloc.ID)
	execFaults(t, s.All[2], cl, alloc.ID)
	for a, want := range map[*cluster.Agent]string{cl: "nomad_client_allocations_exec_count", s.All[0]: "nomad_nomad_alloc_exec_count"} {
		resp, text := harness.Get(t, a, "/v1/metrics?format=prometheus")
		if resp.StatusCode != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("no metric %s", want)
		}
	}
}

// muchThrough pipes 10 MB through a command.
func muchThrough(t *testing.T, a *cluster.Agent, alloc string) {
	t.Helper()
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 10_000_000/16)
	for _, task := range []string{"t", "raw"} {
		code, out, _, err := runIn(t, a, alloc, task, "cat", bytes.NewReader(sent))
		if code != 0 || err != nil || out != string(sent) {
			t.Errorf("10 MB through cat in task %s: exit %d, %v, %d bytes came", task, code, err, len(out))
		}
	}
}

// execFaults checks the errors of exec.
func execFaults(t *testing.T, a, client *cluster.Agent, alloc string) {
	t.Helper()
	unknown := "8ba85cef-22b5-4e1d-9d8c-000000000001"
	for _, through := range []*cluster.Agent{a, client} {
		for _, c := range []struct{ alloc, task, want string }{
			{alloc, "web", `unknown task name "web": the allocation has t, raw`},
			{alloc, "", "must provide task name: the allocation has t, raw"},
			{unknown, "t", fmt.Sprintf("Unknown allocation %q", unknown)},
		} {
			if code, _, _, err := runIn(t, through, c.alloc, c.task, "true", nil); err == nil || err.Error() != c.want {
				t.Errorf("in task %q of %s: %d, %v, want %s", c.task, c.alloc, code, err, c.want)
			}
		}
	}
	over := harness.Register(t, client, harness.OneTask("over", "/bin/true"), "complete")
	if _, _, _, err := runIn(t, a, over.ID, "t", "true", nil); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Errorf("in a task that has ended: %v", err)
	}
}

func TestExecIsRefused(t *testing.T) {
	harness.NeedsRoot(t)
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "disabled.hcl")
	harness.WriteFile(t, cfg, "client {\n  disable_remote_exec = true\n}\n")
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-dev", "-config=" + cfg}})
	defer harness.PurgeAll(t, a)
	alloc := harness.Register(t, a, harness.OneTask("shut", "sleep", "600"), "running")
	if _, _, _, err := runIn(t, a, alloc.ID, "t", "true", nil); err == nil || !strings.Contains(err.Error(), "disable_remote_exec") {
		t.Errorf("on a node that allows no exec: %v", err)
	}
}

// sleepers counts the processes with an argument.
func sleepers(t *testing.T, arg string) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(text), "sleep\x00"+arg+"\x00") {
			n++
		}
	}
	return n
}

// A session ends with the agent of its node, whatever ends the agent; the task continues.
func TestExecEndsWithTheAgent(t *testing.T) {
	harness.NeedsRoot(t)
	f := harness.NewFleet(t, "")
	harness.Passable(t, f.Dir)
	node := f.Join("node", "")
	defer f.Purge()
	alloc := bothRun(t, f.Server, "goes-on")
	for i, end := range []func(){func() { node.Kill() }, func() { node.Stop() }} {
		ended := make(chan error, 2)
		marks := []string{fmt.Sprintf("98765%d1", i), fmt.Sprintf("98765%d2", i)}
		for n, task := range []string{"t", "raw"} {
			takesCommands(t, f.Server, alloc.ID, task)
			go func() {
				_, _, _, err := runIn(t, f.Server, alloc.ID, task, "trap '' HUP TERM; sleep "+marks[n]+" & wait", nil)
				ended <- err
			}()
			harness.Within(t, 20*time.Second, "the session in "+task, func() bool { return sleepers(t, marks[n]) == 1 })
		}
		end()
		for range marks {
			if err := <-ended; err == nil {
				t.Error("a session ended well with its agent")
			}
		}
		// The kernel sends SIGHUP when the shell ends; its child ignores it.
		harness.Within(t, 20*time.Second, "the shells of the sessions end", func() bool { return shells(t, marks[0])+shells(t, marks[1]) == 0 })
		if i == 0 {
			node = harness.Restart(t, node)
		}
	}
	harness.Restart(t, node)
	takesCommands(t, f.Server, alloc.ID, "t")
	if harness.OnlyAlloc(t, f.Server, "goes-on").ID != alloc.ID {
		t.Error("the task was restarted")
	}
}

// takesCommands waits until a task accepts commands: its agent may have just started.
func takesCommands(t *testing.T, a *cluster.Agent, alloc, task string) {
	t.Helper()
	harness.Within(t, 20*time.Second, "commands run in "+task, func() bool {
		code, _, _, err := runIn(t, a, alloc, task, "exit 3", nil)
		return code == 3 && err == nil
	})
}

// shells counts the shells of a session, by their arguments.
func shells(t *testing.T, mark string) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), "sh\x00") && strings.Contains(string(text),
			"sleep "+mark) {
			n++
		}
	}
	return n
}

// screen is the user's terminal.
type screen struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	mu     sync.Mutex
	text   strings.Builder
}

// sit runs nomad in a new terminal.
func sit(t *testing.T, a *cluster.Agent, args ...string) *screen {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, master: master, slave: slave, cmd: exec.Command("nomad", args...)}
	if err := pty.Resize(master, 33, 77); err != nil {
		t.Fatal(err)
	}
	s.cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address())
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		slave.Close()
		master.Close()
	})
	return s
}

func (s *screen) shows(want string) {
	s.t.Helper()
	text := ""
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the screen shows %q, not %q", text, want)
		}
	}()
	harness.Within(s.t, 20*time.Second, "the screen shows "+want, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		text = s.text.String()
		return strings.Contains(text, want)
	})
}

func (s *screen) types(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of nomad and returns its exit code.
func (s *screen) ends() int {
	s.t.Helper()
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// settings returns the settings of the terminal.
func (s *screen) settings() unix.Termios {
	s.t.Helper()
	set, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *set
}

// A user works in a task as in a terminal, and the own terminal is restored afterwards.
func TestExecInATerminal(t *testing.T) {
	harness.NeedsRoot(t)
	a := harness.DevAgent(t)
	defer harness.PurgeAll(t, a)
	alloc := harness.Register(t, a, harness.OneTask("shell", "sleep", "600"), "running")
	plain := func() unix.Termios {
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		return (&screen{t: t, slave: slave}).settings()
	}()
	s := sit(t, a, "alloc", "exec", alloc.ID, "sh", "-c", "echo re''ady; exec sh")
	s.shows("ready")
	s.types("until stty size | grep '33 77'; do :; done; echo $((6*7))\r")
	s.shows("33 77\r\n42\r\n")
	if raw := s.settings(); raw.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 {
		t.Error("the terminal is not raw during the session")
	}
	if err := pty.Resize(s.master, 20, 60); err != nil {
		t.Fatal(err)
	}
	s.types("until stty size | grep '20 60'; do :; done; echo resi''zed\r")
	s.shows("20 60\r\nresized")
	s.types("sleep 7654321\r")
	harness.Within(t, 20*time.Second, "a command of the shell runs", func() bool { return sleepers(t, "7654321") == 1 })
	s.types("\x03") // Ctrl-C goes to the remote command
	harness.Within(t, 20*time.Second, "it is interrupted", func() bool { return sleepers(t, "7654321") == 0 })
	s.types("echo interr''upted; exit 5\r")
	s.shows("interrupted")
	if code := s.ends(); code != 5 {
		t.Errorf("nomad ended with %d, want 5", code)
	}
	if after := s.settings(); after != plain {
		t.Errorf("the terminal is not set back: %+v, was %+v", after, plain)
	}

	s = sit(t, a, "exec", "-task", "t", alloc.ID, "sh", "-c", "echo re''ady; exec sleep 1234567")
	s.shows("ready")
	s.types("x\r~.")
	s.shows("Session closed.")
	if code := s.ends(); code != 1 || s.settings() != plain {
		t.Errorf("after ~. nomad ended with %d, the terminal set back: %v", code, s.settings() == plain)
	}
	harness.Within(t, 20*time.Second, "the command ends with its caller", func() bool { return sleepers(t, "1234567") == 0 })

	s = sit(t, a, "alloc", "exec", alloc.ID, "sh", "-c", "echo re''ady; exec sleep 1234567")
	s.shows("ready")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.ends(); code != 1 || s.settings() != plain {
		t.Errorf("after SIGTERM nomad ended with %d, the terminal set back: %v", code, s.settings() == plain)
	}
}

// The command without a terminal: pipes, exit codes, errors.
func TestExecCommand(t *testing.T) {
	harness.NeedsRoot(t)
	cfg := filepath.Join(harness.TempDir(t), "exec.hcl")
	harness.WriteFile(t, cfg, execDrivers)
	a := harness.DevAgent(t, "-config="+cfg)
	defer harness.PurgeAll(t, a)
	alloc := bothRun(t, a, "piped")
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		want  string
	}{
		{[]string{"alloc", "exec", "-task", "t", alloc.ID, "sh", "-c", "cat; exit 4"}, "piped in", 4, "piped in"},
		{[]string{"exec", "-task=raw", alloc.ID[:8], "cat"}, "more", 0, "more"},
		{[]string{"alloc", "exec", "-i=false", "-task", "t", alloc.ID, "cat"}, "dropped", 0, ""},
		{[]string{"alloc", "exec", "-job", "-task", "t", "piped", "printenv", "NOMAD_JOB_ID"}, "", 0, "piped\n"},
		{[]string{"alloc", "exec", "-t", "-task", "t", alloc.ID, "sh", "-c", "test -t 1 && echo terminal"}, "", 0, "terminal\r\n"},
		{[]string{"alloc", "exec", alloc.ID, "true"}, "", 1, "Allocation has more than one task: specify one of\n* t\n* raw"},
		{[]string{"alloc", "exec", "-task", "web", alloc.ID, "true"}, "", 1, `Could not find task named "web"`},
		{[]string{"alloc", "exec", "-t", "-i=false", "-task", "t", alloc.ID, "true"}, "", 1, "a terminal needs standard input"},
		{[]string{"alloc", "exec", "-task", "t", alloc.ID, "no-such-program"}, "", 127, "no-such-program"},
		{[]string{"alloc", "exec", alloc.ID}, "", 1, "help"},
	} {
		cmd := exec.Command("nomad", c.args...)
		cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address())
		cmd.Stdin = strings.NewReader(c.stdin)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || c.code < 1 && string(out) != c.want || !strings.Contains(string(out), c.want) {
			t.Errorf("nomad %q ends with %d and %q, want %d and %q", c.args, code, out, c.code, c.want)
		}
	}
}
