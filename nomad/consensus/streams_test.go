package consensus_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// peer opens a server that others reach over a listener. Its timers are long, so that a leader
// stays leader even on a busy machine.
func peer(t *testing.T, dir, id string) (server, string) {
	t.Helper()
	ln := testnet.Listen(t)
	addr := ln.Addr().String()
	streams := consensus.NewStreams(addr, func(ctx context.Context, to string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", to)
	})
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go streams.HandOff(conn)
		}
	}()
	f := fsm.New(state.New(nil), nil, nil)
	r, err := consensus.Open(consensus.Config{FSM: f, Dir: dir, ID: id, Streams: streams, Tuning: consensus.Tuning{Multiplier: 10},
		NewTempFSM: func() raft.FSM { return fsm.New(state.New(nil), nil, nil) }})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { r.Close(); ln.Close() })
	return server{r, f}, addr
}

// found bootstraps a cluster in which this server becomes the leader. Its election timeout is
// long.
func (s server) found(t *testing.T, addrs map[string]string) {
	t.Helper()
	if err := s.Bootstrap(addrs); err != nil {
		t.Fatal(err)
	}
	s.Campaign()
	s.lead(t)
}

// confirmed repeats Confirm if the answers were too slow.
func (s server) confirmed(t *testing.T) (term uint64, err error) {
	for end := time.Now().Add(time.Minute); ; {
		term, err = s.Confirm(t.Context())
		if !errors.Is(err, consensus.ErrUnconfirmed) || time.Now().After(end) {
			return term, err
		}
	}
}

func TestStreams_Replicate(t *testing.T) {
	a, aAddr := peer(t, "", "")
	b, bAddr := peer(t, "", "")
	c, cAddr := peer(t, t.TempDir(), "")
	if empty, err := a.Empty(); err != nil || !empty {
		t.Errorf("Empty() = %t, %v", empty, err)
	}
	a.found(t, map[string]string{a.ID(): aAddr, b.ID(): bAddr})
	if err := a.Bootstrap(map[string]string{a.ID(): aAddr}); !errors.Is(err, consensus.ErrBootstrapped) {
		t.Errorf("a second Bootstrap() = %v", err)
	}
	a.addNamespace(t, "one")
	if err := a.AddVoter(t.Context(), c.ID(), cAddr); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "all have the namespace", func() bool {
		return b.fsm.State().Snapshot().Namespace(nil, "one") != nil && c.fsm.State().Snapshot().Namespace(nil, "one") != nil
	})
	if err := c.CaughtUp(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.TransferLeadership(t.Context(), b.ID(), bAddr); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "b leads", b.IsLeader)
	if err := a.TransferLeadership(t.Context(), "", ""); err == nil {
		t.Error("a follower hands over leadership")
	}
	a.Close()
	testpace.Until(t, "two of three go on", func() bool {
		addr, id := c.Leader()
		return id == b.ID() && addr == bAddr
	})
	b.addNamespace(t, "two")
	if err := b.RemoveServer(t.Context(), a.ID()); err != nil {
		t.Error(err)
	}
	if servers, err := b.Servers(); err != nil || len(servers) != 2 {
		t.Errorf("Servers() = %v, %v", servers, err)
	}
}

// Two of three servers are lost permanently. The last one continues alone with peers.json.
func TestRecovery_PeersFile(t *testing.T) {
	dir := t.TempDir()
	a, aAddr := peer(t, dir, "")
	b, bAddr := peer(t, "", "")
	a.found(t, map[string]string{a.ID(): aAddr, b.ID(): bAddr})
	a.addNamespace(t, "kept")
	b.Close()
	a.Close()
	id := a.ID()
	text, err := json.Marshal([]map[string]any{{"id": id, "address": aAddr, "non_voter": false}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "raft", "peers.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	again, _ := peer(t, dir, "")
	again.lead(t)
	if again.fsm.State().Snapshot().Namespace(nil, "kept") == nil {
		t.Error("written data is lost")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("peers.json still exists: %v", err)
	}
}

// A leader is confirmed by a majority. It is not confirmed after it was replaced, nor by
// answers that come too late.
func TestConfirm(t *testing.T) {
	a, aAddr := peer(t, "", "")
	b, bAddr := peer(t, "", "")
	c, cAddr := peer(t, "", "")
	a.found(t, map[string]string{a.ID(): aAddr, b.ID(): bAddr, c.ID(): cAddr})
	want, leads := a.Term()
	if !leads {
		t.Fatal("the server is not the leader")
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if term, err := a.confirmed(t); err != nil || term != want {
				t.Errorf("Confirm() = %d, %v, want term %d", term, err, want)
			}
		})
	}
	wg.Wait()
	testpace.Until(t, "b follows", func() bool { _, id := b.Leader(); return id == a.ID() })
	if _, err := b.Confirm(t.Context()); !errors.Is(err, apierror.ErrNoLeader) {
		t.Errorf("Confirm() of a follower = %v", err)
	}
	c.Close()
	if term, err := a.confirmed(t); err != nil || term != want {
		t.Errorf("Confirm() with two of three = %d, %v", term, err)
	}
	b.Close()
	if _, err := a.Confirm(t.Context()); !errors.Is(err, consensus.ErrUnconfirmed) && !errors.Is(err, apierror.ErrNoLeader) {
		t.Errorf("Confirm() alone = %v", err)
	}
}

// A single voter confirms itself.
func TestConfirm_Alone(t *testing.T) {
	s := open(t, "")
	s.lead(t)
	want, _ := s.Term()
	if term, err := s.Confirm(t.Context()); err != nil || term != want {
		t.Errorf("Confirm() = %d, %v, want term %d", term, err, want)
	}
}
