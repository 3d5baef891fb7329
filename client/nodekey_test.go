package client_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// A node has a key pair from its first start on, in a file for its agent only, and the servers bind it to
// the key.
func TestNodeKey(t *testing.T) {
	s := startReal(t, nil)
	n := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), s.RPCAddr()))
	<-n.Ready()
	path := filepath.Join(n.Cfg.StateDir, "node-key")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Fatalf("node-key: %v, %v", info, err)
	}
	text, key := contentOf(t, path), s.node(n.NodeID()).Key
	if len(key) != 32 || !bytes.Contains(text, []byte("Node-ID: "+n.NodeID())) {
		t.Errorf("the servers have a key of %d bytes; the file is %q", len(key), text[:60])
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	again := clienttest.Start(t, n.Cfg)
	<-again.Ready()
	if !bytes.Equal(contentOf(t, path), text) || !bytes.Equal(s.node(n.NodeID()).Key, key) {
		t.Error("a restart changes the key")
	}
	if err := again.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:80], 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := client.New(n.Cfg, client.Parts{Log: clienttest.Log()}); err == nil ||
		!strings.Contains(err.Error(), "node-key is damaged: restore it from a backup") {
		t.Errorf("New() with a damaged key = %v, %v", c, err)
	}
}

// An agent with the ID and the secret of a node, but without its key, is refused even while the node does
// not run. The servers have an event about it. With the key it is admitted.
func TestCopy_WithoutKey(t *testing.T) {
	s := startReal(t, nil)
	original := clienttest.Start(t, clienttest.Config(clienttest.Dir(t), s.RPCAddr()))
	<-original.Ready()
	cfg := copied(t, original, "")
	if err := original.Stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cfg.StateDir, "node-key")
	key := contentOf(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other := clienttest.Start(t, cfg)
	testpace.Until(t, "the copy is refused", func() bool {
		err := other.Healthy()
		return err != nil && strings.Contains(err.Error(), apierror.ErrNodeHeld.Error()) && strings.Contains(err.Error(), "another key")
	})
	if err := other.Healthy(); !strings.Contains(err.Error(), "node-key") || !strings.Contains(err.Error(), "client-id") {
		t.Errorf("the refusal %q has no remedy", err)
	}
	if events := s.node(original.NodeID()).Events; !slices.ContainsFunc(events, func(e *nomad.NodeEvent) bool {
		return e.Subsystem == nomad.NodeEventSubsystemCluster && e.Details["agent_has"] == "another key" && e.Details["address"] == "127.0.0.1"
	}) {
		t.Errorf("no event about the copy in %v", events)
	}
	if err := other.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	whole := clienttest.Start(t, cfg)
	<-whole.Ready()
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
