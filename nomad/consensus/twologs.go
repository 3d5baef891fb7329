package consensus

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// tail is the end of a log: the term and the index of its last entry, 0 if it is empty.
type tail struct{ term, index uint64 }

// compare orders two ends of logs as raft does: by term, then by index.
func (t tail) compare(o tail) int {
	return cmp.Or(cmp.Compare(t.term, o.term), cmp.Compare(t.index, o.index))
}

func (t tail) String() string { return fmt.Sprintf("index %d of term %d", t.index, t.term) }

// whyTwo is how a directory comes to two logs.
const whyTwo = "Either migrate-backend was killed between its last two steps, or a server with the other raft_logstore backend, perhaps of another build, has run on this directory."

// olderLog says which of the two logs of a raft directory is to be moved away.
func olderLog(raftDir string) string {
	bolt, boltErr := tailOf(&Offline{Dir: raftDir, Backend: BackendBolt})
	wal, walErr := tailOf(&Offline{Dir: raftDir, Backend: BackendWAL})
	if err := errors.Join(boltErr, walErr); err != nil {
		return fmt.Sprintf("which one is newer cannot be seen (%v). Copy both, move one away and look at the other with 'nomad operator raft info'. %s", err, whyTwo)
	}
	switch bolt.compare(wal) {
	case -1:
		return fmt.Sprintf("move raft.db away: it ends at %s, and wal at %s. %s", bolt, wal, whyTwo)
	case 1:
		return fmt.Sprintf("move wal away: it ends at %s, and raft.db at %s. %s", wal, bolt, whyTwo)
	}
	return fmt.Sprintf("move either away: both end at %s. %s", bolt, whyTwo)
}

// tailOf reads the end of one of the logs in a raft directory, and changes nothing.
func tailOf(o *Offline) (t tail, err error) {
	if o.Backend == BackendBolt {
		if o.bolt, err = openBolt(filepath.Join(o.Dir, boltFile), bbolt.Options{ReadOnly: true}, raftLogger(nil)); err != nil {
			return tail{}, err
		}
		defer o.bolt.Close() // only read from
	} else {
		if o.wal, err = openWALReader(filepath.Join(o.Dir, "wal")); err != nil {
			return tail{}, err
		}
		defer o.wal.close() // only read from
	}
	_, last, err := o.Bounds()
	if err != nil || last == 0 {
		return tail{}, err
	}
	err = o.Entries(last, func(e *raft.Log) error {
		t = tail{e.Term, e.Index}
		return nil
	})
	return t, err
}
