package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// A server that does not apply its log in time returns an error. A server may be faster than a
// nanosecond of its clock; the test then tries another one.
func TestStartTimeout(t *testing.T) {
	for range 20 {
		s, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "slow", RPCAddr: testnet.Any, StartTimeout: time.Nanosecond}, servertest.Logger())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go func() {
			defer cancel()
			s.Ready(ctx) //nolint:errcheck // it was in time, or Run has ended it
		}()
		err = s.Run(ctx)
		cancel()
		if err == nil || errors.Is(err, context.Canceled) {
			continue // it was in time
		}
		if !strings.Contains(err.Error(), "server.start_timeout") {
			t.Errorf("Run() = %v", err)
		}
		return
	}
	t.Error("every server was in time")
}

// A server that is in time continues after the timeout.
func TestStartInTime(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.StartTimeout = time.Minute })
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// The server uses its configured directory and shows its gossip address to members.
func TestDirectoryAndGossipAddress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "elsewhere")
	s, _ := servertest.Start(t, func(c *server.Config) {
		c.DataDir, c.Dir, c.SerfAdvertise = t.TempDir(), dir, "10.0.0.7:7000"
	})
	if err := s.Ready(servertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "raft", "*")); len(found) == 0 || err != nil {
		t.Errorf("%s/raft contains %v, %v", dir, found, err)
	}
	if m := s.Self(); m.Addr.String() != "10.0.0.7" || m.Port != 7000 {
		t.Errorf("Self() = %v:%d", m.Addr, m.Port)
	}
	if _, err := server.New(server.Config{Region: "global", Datacenter: "dc1", Name: "x", RPCAddr: testnet.Any, SerfAdvertise: "nowhere"}, servertest.Logger()); err == nil {
		t.Error("New() accepted an address without a port")
	}
}
