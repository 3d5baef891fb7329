package consensus

import "github.com/hashicorp/raft"

// Delay calls hold whenever entries up to last wait for the disk of this server.
func (r *Raft) Delay(hold func(last uint64)) {
	g := r.stores.stable.(*guardedLog)
	g.write.Lock()
	defer g.write.Unlock()
	before := g.syncing
	g.syncing = func(entries []*raft.Log) {
		before(entries)
		hold(entries[len(entries)-1].Index)
	}
}
