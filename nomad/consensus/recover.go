package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// peersInfo is the text of raft/peers.info.
const peersInfo = `When most servers of a cluster are lost for good, no leader can be elected by those
that are left. To go on with them: stop all of them, write the same peers.json into
this directory of each, and start them. The file lists the servers of the cluster:

    [
      {"id": "<content of the file node-id>", "address": "<IP>:<RPC port>", "non_voter": false}
    ]

It is taken over once and then removed. Entries of the log that were not committed
yet may become so: use it only when the lost servers won't come back.
`

// recoverPeers replaces the servers of the cluster with those in raft/peers.json, if an
// operator wrote one. A directory without peers.info is new; a peers.json in it is outdated and
// removed.
func recoverPeers(c Config, rc *raft.Config, s *stores, trans raft.Transport) error {
	if c.Dir == "" {
		return nil
	}
	dir := filepath.Join(c.Dir, "raft")
	peers, info := filepath.Join(dir, "peers.json"), filepath.Join(dir, "peers.info")
	if _, err := os.Lstat(info); errors.Is(err, os.ErrNotExist) {
		if err := os.Remove(peers); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old %s: %w", peers, err)
		}
		return writeFile(info, peersInfo)
	}
	if _, err := os.Lstat(peers); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	conf, err := raft.ReadConfigJSON(peers)
	if err != nil {
		return fmt.Errorf("recovery by %s: %w", peers, err)
	}
	if c.NewTempFSM == nil {
		return fmt.Errorf("recovery by %s: not possible here", peers)
	}
	if err := raft.RecoverCluster(rc, c.NewTempFSM(), s.log, s.stable, s.snapshots, trans, conf); err != nil {
		return fmt.Errorf("recovery by %s: %w", peers, err)
	}
	// If a power failure restored peers.json, it would be applied again.
	if err := errors.Join(os.Remove(peers), safefs.SyncDir(dir)); err != nil {
		return fmt.Errorf("recovery by %s: %w", peers, err)
	}
	c.Log.Warn("the servers of the cluster were taken from peers.json", "count", len(conf.Servers))
	return nil
}
