package harness

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// Fleet is a server and its clients, each a separate agent.
type Fleet struct {
	T      *testing.T
	Server *cluster.Agent
	Dir    string
	Lean   bool // of the clients; NewFleet sets it
}

// NewFleet starts a server with additional configuration.
func NewFleet(t *testing.T, extra string) *Fleet {
	t.Helper()
	f := &Fleet{T: t, Dir: TempDir(t), Lean: true}
	cfg := filepath.Join(f.Dir, "server.hcl")
	WriteFile(t, cfg, extra)
	dir := filepath.Join(f.Dir, "server")
	f.Server = StartIn(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	return f
}

// Join starts a client of the fleet; config holds its client block and further configuration.
func (f *Fleet) Join(name, config string) *cluster.Agent {
	f.T.Helper()
	dir := filepath.Join(f.Dir, name)
	cfg := filepath.Join(f.Dir, name+".hcl")
	WriteFile(f.T, cfg, fmt.Sprintf("name = %q\n", name)+TestDrivers+config)
	a := StartIn(f.T, cluster.Options{Dir: dir, Lean: f.Lean, Args: []string{"-client", "-bind=127.0.0.1",
		fmt.Sprintf("-servers=127.0.0.1:%d", f.Server.RPC), "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	id := NodeID(f.T, a)
	Within(f.T, Patience, "the node has the test driver", func() bool {
		node, _, err := f.Server.Client.Nodes().Info(id, nil)
		return err == nil && node.Drivers["mock_driver"] != nil
	})
	return a
}

// Purge purges every job; it is deferred to run before the agents end.
func (f *Fleet) Purge() { PurgeAll(f.T, f.Server) }
