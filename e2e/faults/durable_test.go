//go:build linux && faults

package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	writers = 16
	settles = 2 * time.Minute // time for a cluster on a busy machine to settle
)

// trio is three servers on the loopback address, each with a disk that persists across restarts.
type trio struct {
	t      *testing.T
	all    []*cluster.Agent
	config string

	mu    sync.Mutex
	acked []string // jobs with an acknowledged registration
	next  int
}

// startTrio starts three servers with their data below dirs, or in test directories.
func startTrio(t *testing.T, config string, dirs ...string) *trio {
	t.Helper()
	s := &trio{t: t, config: filepath.Join(t.TempDir(), "server.hcl")}
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		dir := t.TempDir()
		if len(dirs) > 0 {
			dir = dirs[i]
		}
		o := cluster.Options{Bin: cluster.Built(t), Dir: dir, Log: &lines{}}
		o.Args = []string{"-server", "-bootstrap-expect=3", "-bind=127.0.0.1", fmt.Sprintf("-node=s%d", i),
			"-data-dir=" + filepath.Join(dir, "data"), "-config=" + s.config}
		for _, other := range s.all {
			o.Args = append(o.Args, fmt.Sprintf("-retry-join=127.0.0.1:%d", other.Serf))
		}
		a, err := cluster.Start(t.Context(), o)
		if err != nil {
			t.Fatalf("start server %d: %v\n%s", i, err, o.Log)
		}
		s.all = append(s.all, a)
		t.Cleanup(func() {
			if err := s.all[i].Kill(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("last output of server %d:\n%s", i, s.all[i].Log)
			}
		})
	}
	s.within("a leader of three", func() error { _, err := s.leader(); return err })
	return s
}

// lines keeps the last lines of an agent's output.
type lines struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-64<<10):]
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// within calls ask until it returns nil.
func (s *trio) within(what string, ask func() error) {
	s.t.Helper()
	over, tick := time.After(settles), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for err := ask(); err != nil; err = ask() {
		select {
		case <-over:
			s.t.Fatalf("not within %v: %s: %v", settles, what, err)
		case <-tick.C:
		}
	}
}

// leader returns the leader that all three voters follow.
func (s *trio) leader() (int, error) {
	found := -1
	for i, a := range s.all {
		addr, err := a.Client.Status().Leader()
		if err != nil {
			return -1, fmt.Errorf("server %d: %w", i, err)
		}
		at := slices.IndexFunc(s.all, func(b *cluster.Agent) bool { return addr == fmt.Sprintf("127.0.0.1:%d", b.RPC) })
		if at < 0 || found >= 0 && at != found {
			return -1, fmt.Errorf("server %d follows %q, others server %d", i, addr, found)
		}
		found = at
	}
	conf, err := s.all[found].Client.Operator().RaftGetConfiguration(nil)
	if err != nil {
		return -1, err
	}
	if len(conf.Servers) != 3 {
		return -1, fmt.Errorf("%d servers are in the log", len(conf.Servers))
	}
	return found, nil
}

// lead waits for the leader.
func (s *trio) lead() (at int) {
	s.t.Helper()
	s.within("a leader", func() (err error) { at, err = s.leader(); return err })
	return at
}

// write registers a job of about size bytes through a server.
func (s *trio) write(through *cluster.Agent, size int) error {
	s.mu.Lock()
	s.next++
	id := fmt.Sprintf("acked-%05d", s.next)
	s.mu.Unlock()
	kind, count := "batch", 0
	job := &api.Job{ID: &id, Name: &id, Type: &kind, Meta: map[string]string{"fill": strings.Repeat("x", size)},
		TaskGroups: []*api.TaskGroup{{Name: &id, Count: &count,
			Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Privileged: true, Config: map[string]any{"command": "/bin/true"}}}}}}
	if _, _, err := through.Client.Jobs().Register(job, nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = append(s.acked, id)
	return nil
}

// load writes from all writers until the returned function is called.
func (s *trio) load() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; ctx.Err() == nil; n++ {
				if s.write(s.all[n%3], 0) != nil { // not acknowledged
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// writes returns the number of acknowledged writes.
func (s *trio) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// killAll kills servers at the same moment.
func (s *trio) killAll(which ...int) {
	s.t.Helper()
	var all sync.WaitGroup
	for _, i := range which {
		all.Go(func() {
			if err := s.all[i].Kill(); err != nil {
				s.t.Error(err)
			}
		})
	}
	all.Wait()
}

// restart starts ended servers, all together.
func (s *trio) restart(which ...int) {
	s.t.Helper()
	errs := make([]error, len(s.all))
	var all sync.WaitGroup
	for _, i := range which {
		all.Go(func() {
			var a *cluster.Agent
			if a, errs[i] = cluster.Start(s.t.Context(), s.all[i].Options); errs[i] == nil {
				s.all[i] = a
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			s.t.Fatalf("start server %d again: %v\n%s", i, err, s.all[i].Log)
		}
	}
}

// complete waits until every server has every acknowledged write in its own state.
func (s *trio) complete() {
	s.t.Helper()
	s.mu.Lock()
	acked := slices.Clone(s.acked)
	s.mu.Unlock()
	for i, a := range s.all {
		s.within(fmt.Sprintf("the %d acknowledged writes are on server %d", len(acked), i), func() error {
			stubs, _, err := a.Client.Jobs().List(&api.QueryOptions{AllowStale: true})
			if err != nil {
				return err
			}
			there := map[string]bool{}
			for _, j := range stubs {
				there[j.ID] = true
			}
			lost := slices.DeleteFunc(slices.Clone(acked), func(id string) bool { return there[id] })
			if len(lost) > 0 {
				return fmt.Errorf("%d are missing, %s first", len(lost), lost[0])
			}
			return nil
		})
	}
}

// tail returns the newest segment of a server's log, and the end of its written part.
func (s *trio) tail(i int) (path string, end int64) {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.all[i].Dir, "data/server/raft/wal/*.wal"))
	if err != nil || len(found) == 0 {
		s.t.Fatalf("no segments: %v, %v", found, err)
	}
	path = found[len(found)-1]
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return path, int64(len(bytes.TrimRight(text, "\x00"))+7) &^ 7
}

// put writes into a file of a stopped server.
func (s *trio) put(path string, at int64, text string) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		s.t.Fatal(err)
	}
}

// All servers are killed together under load, several times. They elect a leader by themselves, and
// each has every acknowledged write. Servers that snapshot all the time are killed while they write
// or remove a snapshot, or truncate the log.
func TestAllServersKilled(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		times  int
	}{
		"log":       {"", 4},
		"snapshots": {`server { raft_snapshot_interval = "5ms" raft_snapshot_threshold = 1 raft_trailing_logs = 20 }`, 8},
	} {
		t.Run(name, func(t *testing.T) { killAllUnderLoad(t, startTrio(t, c.config), c.times) })
	}
}

// killAllUnderLoad kills all servers, each time after some writes, and restarts them.
func killAllUnderLoad(t *testing.T, s *trio, times int) {
	for range times {
		before := s.writes()
		stop := s.load()
		s.within("200 writes", func() error {
			if n := s.writes() - before; n < 200 {
				return fmt.Errorf("only %d", n)
			}
			return nil
		})
		s.killAll(0, 1, 2)
		stop()
		s.restart(0, 1, 2)
		s.lead()
		s.complete()
	}
	t.Logf("%d acknowledged writes, %d times all servers killed: all there", s.writes(), times)
}

// The last log record of one server is torn, and garbage follows the last record on all: they
// start, and no entry of a majority is lost.
func TestTornLog(t *testing.T) {
	s := startTrio(t, "")
	// A cut record, and one without an end.
	torn := "\x01\x00\x00\x00\x40\x00\x00\x00" + strings.Repeat("torn", 7)
	for round, tear := range []func(i int, path string, end int64){
		func(i int, path string, end int64) { // the last record of one server
			if i == 0 {
				if err := os.Truncate(path, end-13); err != nil {
					t.Fatal(err)
				}
			}
		},
		func(i int, path string, end int64) { s.put(path, end, torn) },
		func(i int, path string, end int64) {
			s.put(path, end, torn[:11+i]+"\x03\x00\x00\x00oops\x03\x00\x00\x00oops")
		},
		func(i int, path string, end int64) { // nothing unwritten remains
			if err := os.Truncate(path, end); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for range 30 {
			s.within("a write", func() error { return s.write(s.all[round%3], 300) })
		}
		s.complete() // otherwise one server may have the only second copy
		s.killAll(0, 1, 2)
		for i := range s.all {
			path, end := s.tail(i)
			tear(i, path, end)
		}
		s.restart(0, 1, 2)
		s.lead()
		s.complete()
	}
}

// A server whose log is damaged before its end does not start, reports the position, and does not
// change the log. The others continue. With the log repaired it starts.
func TestDamagedLog(t *testing.T) {
	s := startTrio(t, "")
	for range 30 {
		s.within("a write", func() error { return s.write(s.all[0], 300) })
	}
	s.complete()
	s.killAll(2)
	path, end := s.tail(2)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s.put(path, end/2, "damage")
	bad, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := s.refusal(2); !strings.Contains(text, "raft log is damaged") || !strings.Contains(text, path) {
		t.Errorf("output of the server: %q", text)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, bad) {
		t.Errorf("the damaged segment has changed: %v", err)
	}
	s.within("a write without the damaged server", func() error { return s.write(s.all[0], 0) })
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.restart(2)
	s.lead()
	s.complete()
}
