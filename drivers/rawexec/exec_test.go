package rawexec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// output collects a program's output, and can be waited for.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	select {
	case o.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for !strings.Contains(o.String(), want) {
		select {
		case <-o.more:
		case <-late:
			t.Fatalf("%q was not written, but %q", want, o)
		}
	}
}

// sleeper starts a task that runs until the test ends it.
func sleeper(t *testing.T, d *rawexec.Driver) *drivers.TaskConfig {
	t.Helper()
	cfg := task(t, "exec sleep 1000")
	if _, err := d.StartTask(t.Context(), cfg); err != nil {
		t.Fatalf("StartTask() = %v", err)
	}
	return cfg
}

// script runs a shell in a session of a task.
func script(ctx context.Context, d drivers.Execer, id, text string, in io.Reader) (code int, stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	exit, err := d.ExecTask(ctx, id,
		&drivers.ExecOptions{Command: []string{"sh", "-c", text},
			Env:   map[string]string{"PATH": "/usr/bin:/bin", "FROM_CLIENT": "yes", "LD_PRELOAD": ""},
			Stdin: in, Stdout: &out, Stderr: &errs})
	if exit != nil {
		code = exit.ExitCode
	}
	return code, out.String(), errs.String(), err
}

func TestExec(t *testing.T) {
	d := newDriver(t, nil)
	cfg := sleeper(t, d)
	status, err := d.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile("/proc/" + status.Attributes["pid"] + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs, err := script(t.Context(), d, cfg.ID, "echo out; echo err >&2; echo $FROM_CLIENT $NOMAD_TASK_NAME; pwd; cat; exit 7",
		strings.NewReader("typed"))
	if want := "out\nyes\n" + cfg.TaskDir + "\ntyped"; code != 7 || out != want || errs != "err\n" || err != nil {
		t.Errorf("exit %d, %q, %q, %v; want 7, %q, err", code, out, errs, err, want)
	}
	if _, out, _, err := script(t.Context(), d, cfg.ID, "cat /proc/self/cgroup", strings.NewReader("")); out != string(groups) || err != nil {
		t.Errorf("control groups %q, %v, want those of the task: %q", out, err, groups)
	}
	if _, out, _, err := script(t.Context(), d, cfg.ID, "ls -l /proc/self/fd | grep -c socket; ls /proc/self/fd | wc -l",
		strings.NewReader("")); out != "0\n4\n" || err != nil { // 0-2, and that of ls
		t.Errorf("descriptors %q, %v", out, err)
	}
	if code, _, _, err := script(t.Context(), d, cfg.ID, "kill -KILL $$", strings.NewReader("")); code != 137 || err != nil {
		t.Errorf("killed by a signal: %d, %v", code, err)
	}
	var errsOf bytes.Buffer
	exit, err := d.ExecTask(t.Context(), cfg.ID,
		&drivers.ExecOptions{Command: []string{"no-such-program"}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errsOf})
	if err != nil || exit.ExitCode != 127 || !strings.Contains(errsOf.String(), "no-such-program") {
		t.Errorf("a program that does not exist: %+v, %v, %q", exit, err, &errsOf)
	}
}

// Large input and output are copied completely, both ways at once.
func TestExecPipesMuch(t *testing.T) {
	d := newDriver(t, nil)
	cfg := sleeper(t, d)
	sent := make([]byte, 10<<20)
	for i := range sent {
		sent[i] = byte(i * 7 >> 3)
	}
	sum := sha256.New()
	exit, err := d.ExecTask(t.Context(), cfg.ID,
		&drivers.ExecOptions{Command: []string{"cat"}, Env: map[string]string{"PATH": "/usr/bin:/bin"}, Stdin: bytes.NewReader(sent),
			Stdout: sum, Stderr: io.Discard})
	if err != nil || exit.ExitCode != 0 || !bytes.Equal(sum.Sum(nil), func() []byte { s := sha256.Sum256(sent); return s[:] }()) {
		t.Errorf("10 MiB through cat: %+v, %v, or the output differs", exit, err)
	}
}

func TestExecTerminal(t *testing.T) {
	d := newDriver(t, nil)
	cfg := sleeper(t, d)
	in, typed := io.Pipe()
	defer typed.Close()
	out, sizes := newOutput(), make(chan drivers.TerminalSize, 1)
	sizes <- drivers.TerminalSize{Height: 33, Width: 77}
	ended := make(chan string, 1)
	go func() {
		exit, err := d.ExecTask(t.Context(), cfg.ID, &drivers.ExecOptions{Command: []string{"sh", "-c",
			`until stty size | grep -q '33 77'; do :; done; echo sized; trap 'echo resized $(stty size)' WINCH
			test -t 0 && test -t 1 && test -t 2 && echo terminal; while read line; do echo "<$line>"; done; echo over; exit 5`},
			Env: map[string]string{"PATH": "/usr/bin:/bin"}, Tty: true, Stdin: in, Stdout: out, Stderr: io.Discard, Resize: sizes})
		ended <- fmt.Sprint(exit, err)
	}()
	out.await(t, "sized\r\nterminal\r\n")
	sizes <- drivers.TerminalSize{Height: 10, Width: 20}
	io.WriteString(typed, "hello\n")
	out.await(t, "<hello>\r\n")
	out.await(t, "resized 10 20\r\n")
	typed.Close() // sends the end of input
	out.await(t, "over\r\n")
	if got := <-ended; !strings.HasPrefix(got, "&{5 0") {
		t.Errorf("it ended with %s, want code 5", got)
	}
}

// alive reports whether a process runs.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}

func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		testpace.Until(t, fmt.Sprintf("process %d of the session ends", pid), func() bool { return !alive(pid) })
	}
}

// crowd is a shell that ignores signals and has children that do, in their own process groups.
const crowd = `trap '' HUP INT TERM; set -m; (trap '' HUP INT TERM; while :; do sleep 1000; done) & echo $!; sleep 1000 & echo $!; echo $$; echo ready; while :; do sleep 1000; done`

func pids(t *testing.T, text string) (out []int) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		if pid, err := strconv.Atoi(word); err == nil {
			out = append(out, pid)
		}
	}
	if len(out) != 3 {
		t.Fatalf("%q names %d processes, want 3", text, len(out))
	}
	return out
}

// A session ends with its caller and with its task, and leaves no process behind.
func TestExecEndsCompletely(t *testing.T) {
	for name, tty := range map[string]bool{"pipes": false, "terminal": true} {
		t.Run(name, func(t *testing.T) {
			for cause, end := range map[string]func(d *rawexec.Driver, id string, leave func()){
				"the caller leaves": func(_ *rawexec.Driver, _ string, leave func()) { leave() },
				"the task ends": func(d *rawexec.Driver, id string, _ func()) {
					if err := d.StopTask(t.Context(), id, time.Second, "SIGKILL"); err != nil {
						t.Error(err)
					}
				},
			} {
				t.Run(cause, func(t *testing.T) {
					d := newDriver(t, nil)
					cfg := sleeper(t, d)
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					in, typed := io.Pipe()
					defer typed.Close()
					out := newOutput()
					ended := make(chan string, 1)
					go func() {
						exit, err := d.ExecTask(ctx, cfg.ID,
							&drivers.ExecOptions{Command: []string{"bash", "-c", crowd}, Env: map[string]string{"PATH": "/usr/bin:/bin"},
								Tty: tty, Stdin: in, Stdout: out, Stderr: io.Discard})
						ended <- fmt.Sprint(exit, err)
					}()
					out.await(t, "ready")
					all := pids(t, out.String())
					end(d, cfg.ID, leave)
					got := <-ended
					if want := map[bool]string{true: "&{137 9", false: "<nil> the session was ended"}[cause == "the task ends"]; !strings.HasPrefix(got,
						want) {
						t.Errorf("ExecTask() = %s, want %s", got, want)
					}
					gone(t, all)
				})
			}
		})
	}
}

// Background processes of a session are not waited for.
func TestExecBackground(t *testing.T) {
	d := newDriver(t, nil)
	cfg := sleeper(t, d)
	code, out, _, err := script(t.Context(), d, cfg.ID, "sleep 1000 & echo $!; exit 3", strings.NewReader(""))
	pid, perr := strconv.Atoi(strings.TrimSpace(out))
	if code != 3 || err != nil || perr != nil {
		t.Fatalf("exit %d, %q, %v", code, out, err)
	}
	if !alive(pid) {
		t.Error("the background process ended with the shell")
	}
	if err := d.StopTask(t.Context(), cfg.ID, time.Second, "SIGKILL"); err != nil {
		t.Error(err)
	}
	gone(t, []int{pid})
}

func TestExecWithoutTask(t *testing.T) {
	d := newDriver(t, nil)
	if _, _, _, err := script(t.Context(), d, "unknown", "true", strings.NewReader("")); err != drivers.ErrTaskNotFound {
		t.Errorf("in an unknown task: %v", err)
	}
	cfg := task(t, "true")
	runTask(t, d, cfg)
	if _, _, _, err := script(t.Context(), d, cfg.ID, "true", strings.NewReader("")); err != drivers.ErrTaskNotFound {
		t.Errorf("in a task that has ended: %v", err)
	}
}

// A session can also be started in a task of an earlier agent.
func TestExecAfterRecovery(t *testing.T) {
	d := newDriver(t, nil)
	cfg := task(t, "exec sleep 1000")
	h, err := d.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if code, out, _, err := script(t.Context(), d, cfg.ID, "pwd", strings.NewReader("")); code != 0 ||
		strings.TrimSpace(out) != cfg.TaskDir || err != nil {
		t.Errorf("exit %d, %q, %v", code, out, err)
	}
}

// Many sessions leave no descriptor and no process.
func TestExecLeavesNothing(t *testing.T) {
	d := newDriver(t, nil)
	cfg := sleeper(t, d)
	run := func(n int) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if code, _, _, err := script(t.Context(), d, cfg.ID, "exit 4", strings.NewReader("x")); code != 4 || err != nil {
					t.Errorf("exit %d, %v", code, err)
				}
			})
		}
		wg.Wait()
	}
	count := func() int {
		fds, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	run(4)
	before := count()
	for range 5 {
		run(8)
	}
	testpace.Succeeds(t, "the descriptors of 40 sessions are closed", func() error {
		if after := count(); after > before {
			return fmt.Errorf("%d descriptors before, %d after", before, after)
		}
		return nil
	})
}
