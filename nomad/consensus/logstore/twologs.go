package logstore

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// tail is the term and the index of the last entry of a log, 0 if it is empty.
type tail struct{ term, index uint64 }

// compare orders tails like raft: by term, then by index.
func (t tail) compare(o tail) int {
	return cmp.Or(cmp.Compare(t.term, o.term), cmp.Compare(t.index, o.index))
}

// String returns the index and the term.
func (t tail) String() string { return fmt.Sprintf("index %d of term %d", t.index, t.term) }

// whyTwo explains how a directory can contain two logs.
const whyTwo = "Either migrate-backend was killed between its last two steps, or a server with the other " +
	"raft_logstore backend, perhaps another build, has used this directory."

// olderLog explains which of the two logs in a raft directory to move away.
func olderLog(raftDir string) string {
	bolt, boltErr := tailOf(raftDir, Bolt)
	wal, walErr := tailOf(raftDir, WAL)
	if err := errors.Join(boltErr, walErr); err != nil {
		return fmt.Sprintf("cannot determine which one is newer (%v). Copy both, move one away and inspect the "+
			"other with 'nomad operator raft info'. %s", err, whyTwo)
	}
	switch bolt.compare(wal) {
	case -1:
		return fmt.Sprintf("move raft.db away: it ends at %s, wal ends at %s. %s", bolt, wal, whyTwo)
	case 1:
		return fmt.Sprintf("move wal away: it ends at %s, raft.db ends at %s. %s", wal, bolt, whyTwo)
	}
	return fmt.Sprintf("move either one away: both end at %s. %s", bolt, whyTwo)
}

// tailOf reads the last entry of one of the logs in a raft directory. It changes nothing.
func tailOf(raftDir, backend string) (t tail, err error) {
	r, err := OpenReader(raftDir, backend)
	if err != nil {
		return tail{}, err
	}
	defer r.Close() // read only
	_, last, err := r.Bounds()
	if err != nil || last == 0 {
		return tail{}, err
	}
	err = r.Entries(last, func(e *raft.Log) error {
		t = tail{e.Term, e.Index}
		return nil
	})
	return t, err
}
