package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// maxFree is more descriptors than any single request uses.
const maxFree = 36

// limitFiles limits the agent to this many further descriptors, those between open ones included, and returns a function
// that lifts the limit.
func limitFiles(t *testing.T, a *cluster.Agent, free int) (lift func()) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, f := range files {
		open[f.Name()] = true
	}
	limit := 0
	for left := free; left > 0 || open[fmt.Sprint(limit)]; limit++ {
		if !open[fmt.Sprint(limit)] {
			left--
		}
	}
	var old unix.Rlimit
	if err := unix.Prlimit(a.Pid(), unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: uint64(limit), Max: old.Max}
	if err := unix.Prlimit(a.Pid(), unix.RLIMIT_NOFILE, &low, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(a.Pid(), unix.RLIMIT_NOFILE, &old, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// soon bounds the answer of an agent without free descriptors, on a busy machine. A connection that the agent does not
// accept would wait longer.
const soon = 20 * time.Second

// An agent without free descriptors answers requests with errors, soon, and recovers when descriptors are free again. Exec
// needs a connection of its own: without any descriptor it is refused.
func TestDescriptorsRunOut(t *testing.T) {
	harness.NeedsRoot(t)
	a := harness.DevAgent(t)
	pid := a.Pid()
	alloc := harness.Register(t, a, harness.OneTask("lives", "/bin/sh", "-c", "echo logged; exec sleep 600"), "running")
	harness.Within(t, harness.Patience, "a line of log", func() bool { return harness.Log(a, alloc) == "logged\n" })
	for what, try := range map[string]func() error{
		"exec":     func() error { return execTrue(t, a, alloc, false) },
		"terminal": func() error { return execTrue(t, a, alloc, true) },
		"logs":     func() error { return readLog(t, a, alloc) },
		"start": func() error {
			_, _, err := a.Client.Jobs().Register(harness.OneTask("starved", "/bin/true"), nil)
			return err
		},
	} {
		failed := 0
		for free := range maxFree {
			if _, err := a.Client.Agent().Health(); err != nil { // leaves a connection for the next request
				t.Fatalf("%s with %d descriptors free: the agent does not answer: %v", what, free-1, err)
			}
			lift := limitFiles(t, a, free)
			begun := time.Now()
			err := try()
			took := time.Since(begun)
			lift()
			if took > soon {
				t.Errorf("%s with %d descriptors free took %v: %v", what, free, took, err)
			}
			if err == nil && free == 0 && what != "start" {
				t.Errorf("%s without free descriptors = nil, want an error", what)
			}
			if err == nil {
				continue
			}
			if failed++; strings.Contains(err.Error(), "internal error") {
				t.Errorf("%s with %d descriptors free: %v, want an error of the system", what, free, err)
			}
		}
		// A start fails later, in the task's events.
		if failed == 0 && what != "start" {
			t.Errorf("%s: no attempt failed", what)
		}
		if err := try(); err != nil {
			t.Errorf("%s with descriptors again: %v", what, err)
		}
	}
	harness.Register(t, a, harness.OneTask("after", "/bin/true"), "complete")
	if a.Pid() != pid {
		t.Errorf("the agent is process %d, was %d", a.Pid(), pid)
	}
}

func execTrue(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub, tty bool) error {
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	var out bytes.Buffer
	code, err := a.Client.Allocations().Exec(ctx, &api.Allocation{ID: alloc.ID}, "t", tty, []string{"true"}, nil, &out, &out, nil, nil)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, &out)
	}
	return err
}

func readLog(t *testing.T, a *cluster.Agent, alloc *api.AllocationListStub) error {
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	frames, errs := a.Client.AllocFS().Logs(&api.Allocation{ID: alloc.ID}, false, "t", "stdout", "start", 0, ctx.Done(), nil)
	for range frames {
	}
	select {
	case err := <-errs: // sent before frames is closed
		return err
	default:
		return nil
	}
}

// In a container /dev/ptmx may exist and be inaccessible: exec with a terminal is rejected, and the
// agent continues.
func TestExecWithoutTerminals(t *testing.T) {
	harness.NeedsRoot(t)
	dir := harness.TempDir(t)
	wrapper := filepath.Join(dir, "agent.sh")
	text := "#!/bin/sh\nmount --bind /dev/ptmx /dev/ptmx && mount -o remount,bind,nodev /dev/ptmx && exec nomad \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec unshare -m sh "+wrapper+".inner \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, wrapper+".inner", text)
	harness.WriteFile(t, filepath.Join(dir, "exec2.hcl"), harness.UnveilConfig())
	a := harness.Start(t, cluster.Options{Bin: wrapper, Dir: dir, Args: []string{"-dev", "-config=" + filepath.Join(dir, "exec2.hcl")}})
	alloc := harness.Register(t, a, harness.OneTask("lives", "/bin/sleep", "600"), "running")
	err := execTrue(t, a, alloc, true)
	if err == nil || !strings.Contains(err.Error(), "/dev/ptmx: permission denied") {
		t.Errorf("exec with a terminal = %v, want that /dev/ptmx may not be opened", err)
	}
	if err := execTrue(t, a, alloc, false); err != nil {
		t.Errorf("exec without a terminal = %v", err)
	}
}

// A task that opens connections to its API socket without limit gets 32 of them. The operator and
// the other tasks are served in the meantime, and the task itself after it closes some.
func TestSocketConnectionsAreBounded(t *testing.T) {
	const most, attempts = 32, 300
	a, data := harness.SandboxAgent(t)
	greedy, other := harness.Hold(t, a, data, "greedy"), harness.Hold(t, a, data, "other")
	defer limitFiles(t, a, attempts/2)()
	held := make([]net.Conn, attempts)
	for i := range held {
		held[i] = harness.DialSocket(t, greedy)
	}
	if text, err := io.ReadAll(held[attempts-1]); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 429 ") {
		t.Errorf("connection %d got %q, %v; want status 429", attempts, text, err)
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if code, text, _ := harness.Fetch(t, fresh, "GET", a.Address()+"/v1/agent/health", ""); code != http.StatusOK {
		t.Errorf("the operator gets %d %s", code, text)
	}
	if code, text, _ := harness.Fetch(t, harness.SocketClient(t, other), "GET", "http://x/v1/agent/health",
		other.Token); code != http.StatusOK {
		t.Errorf("the other task gets %d %s", code, text)
	}
	for _, c := range held[most/2:] {
		c.Close()
	}
	harness.Within(t, harness.Patience, "the task is served again", func() bool {
		return servesSocket(t, greedy)
	})
	silent := held[0]
	if _, err := io.ReadAll(silent); err != nil { // the deadline to the first byte passed: closed
		t.Errorf("a connection without a request: %v, want that it is closed", err)
	}
}

// servesSocket reports whether a request at the socket of a task gets 200. The agent answers a
// connection above the limit with 429 and closes it, perhaps before the client has sent its request.
func servesSocket(t *testing.T, h harness.Holder) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://x/v1/agent/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", h.Token)
	resp, err := harness.SocketClient(t, h).Do(req)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
