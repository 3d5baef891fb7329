package agent_test

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

const upstreamID = "5e0bd1a1-0e8e-4f5e-9d2c-9a8a3a0d1c55"

// upstreamLog creates the data directory of a Nomad 2.0 server that was the only one in its
// cluster, in term 3. Its log is in raft.db.
func upstreamLog(t *testing.T) (data string) {
	t.Helper()
	data = clienttest.Dir(t)
	raftDir := filepath.Join(data, "server", "raft")
	if err := os.MkdirAll(raftDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"raft/version": "3", "node-id": upstreamID} {
		if err := os.WriteFile(filepath.Join(data, "server", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry, err := codec.Encode(map[string]any{"Index": 1, "Term": 1, "Type": uint8(raft.LogConfiguration), "AppendedAt": nil,
		"Extensions": nil,
		"Data":       raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: upstreamID, Address: "127.0.0.1:4647"}}})})
	if err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(raftDir, "raft.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for bucket, row := range map[string][2][]byte{
			"logs": {binary.BigEndian.AppendUint64(nil, 1), entry},
			"conf": {[]byte("CurrentTerm"), binary.BigEndian.AppendUint64(nil, 3)},
		} {
			b, err := tx.CreateBucket([]byte(bucket))
			if err == nil {
				err = b.Put(row[0], row[1])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

// A server continues with the log in its directory, whatever the default backend is. agent/self
// shows the backend.
func TestLogOfUpstreamsServer(t *testing.T) {
	data := upstreamLog(t)
	srv, stop := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", data, "-config", write(t, free))
	var leader string
	testpace.Until(t, "there is a leader", func() bool { return get(srv, "/v1/status/leader", &leader) == nil && leader != "" })
	var self struct {
		Config struct {
			Server struct{ RaftLogstore struct{ Backend string } }
		}
		Stats map[string]map[string]string
	}
	if err := get(srv, "/v1/agent/self", &self); err != nil || self.Config.Server.RaftLogstore.Backend != logstore.Bolt {
		t.Errorf("agent/self shows backend %q, %v", self.Config.Server.RaftLogstore.Backend, err)
	}
	stop()
	if _, err := os.Stat(filepath.Join(data, "server/raft/wal")); !os.IsNotExist(err) {
		t.Errorf("there is a second log: %v", err)
	}
	o, err := consensus.OpenOffline(data)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if term, _, _ := o.Vote(); o.Backend != logstore.Bolt || term != 4 {
		t.Errorf("the log is of %s and in term %d, want boltdb and 4, the term after upstream's", o.Backend, term)
	}
}

// A backend named in the configuration is never replaced by that of the directory.
func TestNamedLogStore(t *testing.T) {
	data := upstreamLog(t)
	_, err := build(t, io.Discard, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", data,
		"-config", write(t, free+"server { raft_logstore { backend = \"wal\" } }\n"))
	if err == nil || !strings.Contains(err.Error(), `backend "boltdb"`) || !strings.Contains(err.Error(), "migrate-backend") {
		t.Errorf("New() = %v, want an error that names both stores and the command", err)
	}
}
