package network_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// The rules come back after an administrator has removed them, and stay away after the allocation.
func TestFlushedRules(t *testing.T) {
	testpace.Slow(t, "makes many networks with CNI plugins")
	n := newNode(t)
	log := &testbuffer.Buffer{}
	n.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	n.set = network.New(n.cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.set.Watch(ctx) }()
	r := request(allocID, n.space(allocID))
	r.Network.Isolate = true
	status := n.connect(r)
	flushed := func() bool {
		out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return !bytes.Contains(out, []byte(allocID))
	}
	for i, command := range []string{"flush ruleset", "delete table bridge open_nomad"} {
		if out, err := exec.Command("nft", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !flushed() && i == 0 {
			t.Error("the rules exist after they were removed")
		}
		testpace.Until(t, "the rules are restored", func() bool { return !flushed() && strings.Count(log.String(), "restored nftables rules") == i+1 })
	}
	if err := n.set.Disconnect(t.Context(), allocID); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch() = %v", err)
	}
	if err := n.spaces.Remove(allocID); err != nil {
		t.Fatal(err)
	}
	n.wantClean(allocID, status.Address)
	if n := strings.Count(log.String(), "restored"); n != 2 {
		t.Errorf("restored %d times, want 2", n)
	}
}
