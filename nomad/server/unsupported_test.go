package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// later is a command of a later version: another project reserves its number.
const later message.CommandType = 66

// unsupported maps commands of later versions to their names in errors.
var unsupported = map[message.CommandType]string{later: "unknown", 74: "unknown"}

// runner is a server that may end by itself.
type runner struct {
	*server.Server
	ended <-chan error
	stop  func()
}

// run runs a server until it fails or the test ends.
func run(t *testing.T, change func(*server.Config), log *slog.Logger) runner {
	t.Helper()
	cfg := server.Config{Region: "global", Datacenter: "dc1", Name: "test", RPCAddr: testnet.Any, Version: "2.0.6", HeartbeatGrace: time.Hour}
	change(&cfg)
	s, err := server.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- s.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return runner{s, ended, stop}
}

// commandsAfter counts the commands after an entry of a type in a stopped server's log. It
// returns the index of that entry.
func commandsAfter(t *testing.T, dir string, kind message.CommandType) (index uint64, after int) {
	t.Helper()
	o, err := consensus.OpenOffline(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	err = o.Entries(0, func(l *raft.Log) error {
		switch {
		case l.Type != raft.LogCommand:
		case message.CommandType(l.Data[0]) == kind:
			index = l.Index
		case index != 0:
			after++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return index, after
}

func TestUnsupported_EntryStopsServer(t *testing.T) {
	for kind, name := range unsupported {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			dir := t.TempDir()
			s := run(t, func(c *server.Config) { c.DataDir = dir }, servertest.Logger())
			if err := s.Ready(servertest.Context(t)); err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(servertest.Context(t), kind, map[string]any{}); err == nil {
				t.Error("the entry was applied")
			}
			first := <-s.ended
			index, _ := commandsAfter(t, dir, kind)
			want := fmt.Sprintf("log entry %d has type %d (%s)", index, kind, name)
			if first == nil || !strings.Contains(first.Error(), want) || !strings.Contains(first.Error(), "upgrade this server") {
				t.Fatalf("Run() = %v, want %q", first, want)
			}
			again := <-run(t, func(c *server.Config) { c.DataDir = dir }, servertest.Logger()).ended
			if again == nil || !strings.Contains(again.Error(), want) {
				t.Errorf("Run() after a restart = %v, want %q", again, want)
			}
			if _, after := commandsAfter(t, dir, kind); after > 0 {
				t.Errorf("%d commands were written after the entry", after)
			}
		})
	}
}

// anyFSM applies every entry, like a server with more features.
type anyFSM struct{}

func (anyFSM) Apply(*raft.Log) any                  { return nil }
func (anyFSM) ApplyBatch(entries []*raft.Log) []any { return make([]any, len(entries)) }
func (anyFSM) Snapshot() (raft.FSMSnapshot, error)  { return nil, errors.ErrUnsupported }
func (anyFSM) Restore(io.ReadCloser) error          { return errors.ErrUnsupported }

// The log of another server contains none of the entries with which this version bootstraps a
// cluster, after an entry that it cannot apply. It must not write them: the root key and the
// configuration may be in the entries that were not applied.
func TestUnsupported_NothingWrittenAfter(t *testing.T) {
	dir := t.TempDir()
	other, err := consensus.Open(consensus.Config{FSM: anyFSM{}, Dir: filepath.Join(dir, "server"), Address: "127.0.0.1:4647",
		Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	for leads := false; !leads; leads = <-other.Leadership() {
	}
	_, err = other.Apply(servertest.Context(t), later, map[string]any{})
	if err = errors.Join(err, other.Close()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err := <-run(t, func(c *server.Config) { c.DataDir = dir }, servertest.Logger()).ended
		if err == nil || !strings.Contains(err.Error(), "has type 66 (unknown)") {
			t.Errorf("Run() = %v", err)
		}
	}
	if _, after := commandsAfter(t, dir, later); after > 0 {
		t.Errorf("%d commands were written after the entry", after)
	}
}

// The leader and a majority of the followers stop. The last server may never learn that the
// entry was committed.
func TestUnsupported_EntryStopsCluster(t *testing.T) {
	var all []runner
	var members []servertest.Member
	for i := range 3 {
		s := run(t, func(c *server.Config) {
			c.Name, c.SerfAddr, c.GossipProbe, c.BootstrapExpect = fmt.Sprintf("s%d", i), testnet.Any, 100*time.Millisecond, 3
			if i > 0 {
				c.RetryJoin = []string{members[0].GossipAddr()}
			}
		}, servertest.Logger())
		all, members = append(all, s), append(members, servertest.Member{Server: s.Server, Stop: s.stop})
	}
	servertest.WaitVoters(t, members, 3)
	leader, _ := servertest.Split(t, members)
	if err := leader.Apply(servertest.Context(t), later, map[string]any{}); err == nil {
		t.Error("the entry was applied")
	}
	outcomes := make(chan error, len(all))
	for _, s := range all {
		go func() { outcomes <- <-s.ended }()
	}
	for range 2 {
		if err := <-outcomes; err == nil || !strings.Contains(err.Error(), "has type 66 (unknown)") {
			t.Errorf("Run() = %v", err)
		}
	}
}

func TestUnsupported_IgnoreFlag(t *testing.T) {
	var text servertest.Log
	s := run(t, func(*server.Config) {}, slog.New(slog.NewTextHandler(&text, nil)))
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	for kind := range unsupported {
		for range 3 {
			if err := s.Apply(servertest.Context(t), kind|message.IgnoreUnknownTypeFlag, map[string]any{}); err != nil {
				t.Errorf("command %d: %v", kind, err)
			}
		}
		if got := strings.Count(text.String(), fmt.Sprintf("type=%d ", kind)); got != 1 {
			t.Errorf("command %d is logged %d times", kind, got)
		}
	}
	servertest.Register(t, s.Server, servertest.BatchJob("after", 0))
	s.stop()
	if err := <-s.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v", err)
	}
}

// A snapshot with an unknown record type is refused at each start.
func TestUnsupported_SnapshotRecord(t *testing.T) {
	dir := t.TempDir()
	data := func(c *server.Config) { c.DataDir = dir }
	s, stop := servertest.Start(t, data)
	servertest.Register(t, s, servertest.BatchJob("before", 0))
	stop()
	addRecord(t, filepath.Join(dir, "server"), 77)
	for range 2 {
		s, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "test", RPCAddr: testnet.Any, DataDir: dir},
			servertest.Logger())
		if err == nil {
			s.Close()
			t.Fatal("the server starts")
		}
		if !strings.Contains(err.Error(), "unrecognized snapshot type 77 at record 1") {
			t.Errorf("New() = %v", err)
		}
	}
}

// addRecord adds a snapshot with one record of a type to the directory of a stopped server.
func addRecord(t *testing.T, dir string, kind byte) {
	t.Helper()
	o, err := consensus.OpenOffline(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, last, err := o.Bounds()
	if err = errors.Join(err, o.Close()); err != nil {
		t.Fatal(err)
	}
	snaps, err := raft.NewFileSnapshotStore(filepath.Join(dir, "raft"), 2, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("")
	sink, err := snaps.Create(1, last, 1, raft.Configuration{}, 1, trans)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = sink.Write([]byte{0x80, kind, 0x80}); err == nil {
		err = sink.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
