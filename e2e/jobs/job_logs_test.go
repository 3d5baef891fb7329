package jobs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// follower is a running `nomad alloc logs -f -job`.
type follower struct {
	mu    sync.Mutex
	out   []string // lines of both streams
	ended chan error
}

// followJob starts the command against an address.
func followJob(t *testing.T, addr string, args ...string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "nomad", append([]string{"alloc", "logs", "-f", "-job"}, args...)...)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+addr)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	f := &follower{ended: make(chan error, 1)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			f.mu.Lock()
			f.out = append(f.out, lines.Text())
			f.mu.Unlock()
		}
	})
	go func() {
		err := cmd.Wait()
		w.Close()
		read.Wait()
		f.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		read.Wait()
	})
	return f
}

// count returns how many lines end with text.
func (f *follower) count(text string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.out {
		if strings.HasSuffix(line, text) {
			n++
		}
	}
	return n
}

func (f *follower) await(t *testing.T, text string, n int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%d lines %.40q, want %d, of %d bytes", f.count(text), text, n, len(f.all()))
		}
	}()
	testpace.Within(t, harness.Patience, fmt.Sprintf("%d lines %.40q", n, text), func() bool { return f.count(text) >= n })
}

func (f *follower) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.out, "\n")
}

// relay is a TCP proxy whose connections can be cut.
type relay struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns map[net.Conn]bool
	most  int // connections at once
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: strings.TrimPrefix(to, "http://"), conns: map[net.Conn]bool{}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.disconnect()
		work.Wait()
	})
	return r
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer up.Close()
	r.mu.Lock()
	r.conns[c] = true
	r.most = max(r.most, len(r.conns))
	r.mu.Unlock()
	go func() {
		io.Copy(up, c)
		up.Close()
	}()
	io.Copy(c, up)
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// disconnect closes all connections.
func (r *relay) disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// The command follows all allocations over rotations and lost connections without a gap or a repetition, picks up
// new allocations, and ends with the job.
func TestJobLogs(t *testing.T) {
	a := harness.DevAgent(t)
	dir := harness.TempDir(t)
	gate := func(name string) string {
		return "until [ -e " + filepath.Join(dir, name) + " ]; do sleep 0.05; done; "
	}
	line := strings.Repeat("x", 990)
	// 3 MB in files of 1 MB, of which all are kept.
	script := "echo first; echo problem >&2; " + gate("go") + "i=0; while [ $i -lt 3000 ]; do echo $i:" + line +
		"; i=$((i+1)); done; echo last; " + gate("end")
	text := func(count int) string {
		return harness.Job("many", `type = "service"`,
			fmt.Sprintf("count = %d\n", count)+harness.Shell(script, "logs {\n max_files = 5\n max_file_size = 1\n}"))
	}
	harness.Run(t, a, text(2))
	before := harness.Await(t, a, "many", "running", 2)
	proxy := newRelay(t, a.Address())
	f := followJob(t, "http://"+proxy.Addr().String(), "many")
	f.await(t, " t first", 2)
	f.await(t, " t problem", 2)
	for _, al := range before {
		f.await(t, al.ID[:8]+" t first", 1)
	}
	harness.Run(t, a, text(3))
	f.await(t, " t first", 3)

	harness.WriteFile(t, filepath.Join(dir, "go"), "")
	for _, n := range []int{500, 1200, 2500} {
		f.await(t, fmt.Sprintf(" %d:%s", n, line), 1)
		proxy.disconnect()
	}
	f.await(t, " t last", 3)
	for n := range 3000 {
		if got := f.count(fmt.Sprintf(" t %d:%s", n, line)); got != 3 {
			t.Fatalf("line %d was printed %d times, want once for each of 3 allocations", n, got)
		}
	}
	if strings.Contains(f.all(), "\x1b[") {
		t.Error("colors without a terminal")
	}

	if _, _, err := a.Client.Jobs().Deregister("many", false, nil); err != nil {
		t.Fatal(err)
	}
	f.end(t)
}

// A job with more logs than a command has streams: all are printed, in turns.
func TestJobLogsTakeTurns(t *testing.T) {
	// An agent accepts 100 connections from one address. A closed one counts until the agent has noticed.
	const count, most = 60, 100
	a := harness.DevAgent(t)
	gate := filepath.Join(harness.TempDir(t), "gate")
	harness.Run(t, a, harness.Job("many", `type = "batch"`,
		fmt.Sprintf("count = %d\n", count)+harness.Shell("echo first; echo problem >&2; until [ -e "+gate+
			" ]; do sleep 0.2; done; echo last; echo over >&2")))
	harness.Await(t, a, "many", "running", count)
	proxy := newRelay(t, a.Address())
	f := followJob(t, "http://"+proxy.Addr().String(), "many")
	f.await(t, " t first", count)
	f.await(t, " t problem", count)
	harness.WriteFile(t, gate, "")
	f.end(t)
	for _, text := range []string{"first", "problem", "last", "over"} {
		if got := f.count(" t " + text); got != count {
			t.Errorf("%d lines %q, want %d", got, text, count)
		}
	}
	proxy.mu.Lock()
	defer proxy.mu.Unlock()
	if proxy.most > most {
		t.Errorf("%d connections at once, want at most %d", proxy.most, most)
	}
}

// end waits until the command has ended, with success.
func (f *follower) end(t *testing.T) {
	t.Helper()
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("the command ended with %v", err)
		}
	case <-time.After(harness.Patience):
		t.Fatalf("the command does not end with the job")
	}
}
